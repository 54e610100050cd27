"""`equipoise report` and `equipoise plot`: a run or a balancer to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.errors import plain_errors
from equipoise.cli.options import (
    DataDir,
    Device,
    Environment,
    Features,
    Files,
    ImageSize,
    Label,
    Quiet,
    Seed,
    collect_options,
    open_data,
)

if TYPE_CHECKING:
    from equipoise.report import Target

TargetPath = Annotated[
    Path, typer.Argument(help="Directory of a run, or a saved balancer or its directory.")
]
OwnData = Annotated[
    str | None, typer.Option(help="The data, if the target does not know them: as of `balance`.")
]
Cache = Annotated[
    Path | None, typer.Option(help="Where the run's balancer is; by default beside it.")
]


@plain_errors
def report(
    target: TargetPath,
    output: Annotated[
        Path | None, typer.Option(help="The page; by default report.html in or beside the target.")
    ] = None,
    data: OwnData = None,
    path: Files = None,
    label: Label = None,
    environment: Environment = None,
    features: Features = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache: Cache = None,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write one HTML page on a run or a balancer: verdict, balance, matches, curves."""
    from equipoise.report import write_report

    opened = open_from_options(
        target,
        data=data,
        path=path,
        label=label,
        environment=environment,
        features=features,
        image_size=image_size,
        data_dir=data_dir,
        cache=cache,
        device=device,
        verbose=not quiet,
    )
    if not quiet:
        for sentence in opened.missing:
            typer.echo(f"note: {sentence}", err=True)
    page = write_report(
        output or opened.folder / "report.html",
        opened.balancer,
        opened.examples,
        opened.labels,
        opened.environments,
        run=opened.run,
        title=title,
        seed=seed,
        verbose=not quiet,
    )
    if not quiet:
        typer.echo(page)


KINDS = (
    "situations, love, tables, overlap, gallery, counterfactuals, traversals, reuse or tuning; "
    "of a run also curves or confusions."
)


@plain_errors
def plot(
    kind: Annotated[str, typer.Argument(help=KINDS)],
    target: TargetPath,
    output: Annotated[Path, typer.Option(help="The picture: .png, .pdf or .svg.")],
    place: Annotated[
        str | None, typer.Option("--in", help="One environment, for love, tables and overlap.")
    ] = None,
    data: OwnData = None,
    path: Files = None,
    label: Label = None,
    environment: Environment = None,
    features: Features = None,
    image_size: ImageSize = None,
    data_dir: DataDir = None,
    cache: Cache = None,
    seed: Seed = 0,
    device: Device = "cpu",
) -> None:
    """Draw one picture of a run or a balancer, for a paper or a slide."""
    from equipoise.checks import check_choice
    from equipoise.report import PLOTS, check_format, draw_plot, save_figure

    check_choice("plot", kind, PLOTS)
    check_format(output)
    opened = open_from_options(
        target,
        data=data,
        path=path,
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


def open_from_options(
    target: Path,
    *,
    data: str | None,
    path: str | None,
    label: str | None,
    environment: str | None,
    features: list[str] | None,
    image_size: int | None,
    data_dir: Path | None,
    cache: Path | None,
    device: str,
    verbose: bool,
) -> Target:
    """Open the target with what the options say of its data."""
    from equipoise.algorithms import choose_device
    from equipoise.report import open_target

    options = collect_options(
        path=path, label=label, environment=environment, features=features, image_size=image_size
    )
    if data is None and options:
        raise ValueError(f"{', '.join(options)} say how to read --data: name the data as well")
    dataset = None if data is None else open_data(data, data_dir, options, verbose=verbose)
    return open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
    )
