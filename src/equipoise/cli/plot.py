"""`equipoise plot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.errors import plain_errors

KINDS = (
    "love, tables, overlap, gallery, counterfactuals, traversals, reuse or tuning; of a run also "
    "curves or confusions"
)


@plain_errors
def plot(
    kind: Annotated[str, typer.Argument(help=KINDS + ".")],
    target: Annotated[
        Path, typer.Argument(help="Directory of a run, or a saved balancer or its directory.")
    ],
    output: Annotated[Path, typer.Option(help="The picture: .png, .pdf or .svg.")],
    place: Annotated[
        str | None, typer.Option("--in", help="One environment, for love, tables and overlap.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="The data, if the target does not know them: as of `balance`."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="The label's column in --data.")] = None,
    environment: Annotated[
        str | None, typer.Option(help="The environment's column in --data.")
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Feature columns of --data, repeatable or a,b,c.")
    ] = None,
    image_size: Annotated[
        int | None, typer.Option(min=1, help="Side that images are resized to.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the files of a dataset by name are.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where the run's balancer is; by default beside it.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the examples drawn to be shown.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
) -> None:
    """Draw one picture of a run or a balancer, for a paper or a slide."""
    from equipoise.benchmark.devices import choose_device
    from equipoise.choices import check_choice
    from equipoise.cli.data import collect_options, open_data
    from equipoise.report import save_figure
    from equipoise.report.figures.saving import check_format
    from equipoise.report.opening import open_target
    from equipoise.report.plotting import PLOTS, draw_plot

    check_choice("plot", kind, PLOTS)
    check_format(output)
    columns = [name for value in features or [] for name in value.split(",")]
    options = collect_options(image_size, None, label, environment, columns, None)
    dataset = None if data is None else open_data(data, data_dir, options, verbose=True)
    opened = open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
    )
    save_figure(draw_plot(kind, opened, environment=place, seed=seed), output)
    typer.echo(output)
