"""`equipoise plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli import target as of_target
from equipoise.cli.errors import plain_errors

KINDS = (
    "love, tables, overlap, gallery, counterfactuals, traversals, reuse or tuning; of a run also "
    "curves or confusions."
)


@plain_errors
def plot(
    kind: Annotated[str, typer.Argument(help=KINDS)],
    target: of_target.TargetPath,
    output: Annotated[Path, typer.Option(help="The picture: .png, .pdf or .svg.")],
    place: Annotated[
        str | None, typer.Option("--in", help="One environment, for love, tables and overlap.")
    ] = None,
    data: of_target.Data = None,
    label: of_target.Label = None,
    environment: of_target.Environment = None,
    features: of_target.Features = None,
    image_size: of_target.ImageSize = None,
    data_dir: of_target.DataDir = None,
    cache: of_target.Cache = None,
    seed: of_target.Seed = 0,
    device: of_target.Device = "cpu",
) -> None:
    """Draw one picture of a run or a balancer, for a paper or a slide."""
    from equipoise.choices import check_choice
    from equipoise.report import save_figure
    from equipoise.report.figures.saving import check_format
    from equipoise.report.plotting import PLOTS, draw_plot

    check_choice("plot", kind, PLOTS)
    check_format(output)
    opened = of_target.open_from_options(
        target,
        data=data,
        label=label,
        environment=environment,
        features=features,
        image_size=image_size,
        data_dir=data_dir,
        cache=cache,
        device=device,
        verbose=True,
    )
    save_figure(draw_plot(kind, opened, environment=place, seed=seed), output)
    typer.echo(output)
