"""`equipoise report` and `equipoise plot`: a run or a balancer to look at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli.options import (
    DataDir,
    Device,
    Quiet,
    Seed,
    open_data,
    plain_errors,
    reads_data,
)

if TYPE_CHECKING:
    from equipoise.report import Target

TargetPath = Annotated[
    Path, typer.Argument(help="Directory of a run, or a saved balancer or its directory.")
]
OwnData = Annotated[
    str | None, typer.Option(help="The data, as for `balance`, if the target does not name them.")
]
Cache = Annotated[
    Path | None, typer.Option(help="Directory of the run's balancer; by default beside the run.")
]


@plain_errors
@reads_data
def report(
    target: TargetPath,
    output: Annotated[
        Path | None, typer.Option(help="The page; by default report.html in or beside the target.")
    ] = None,
    data: OwnData = None,
    *,
    reading: dict[str, Any],
    data_dir: DataDir = None,
    cache: Cache = None,
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    seed: Seed = 0,
    device: Device = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write one HTML page on a run or a balancer: verdict, balance, matches, curves."""
    from equipoise.report import write_report

    opened = _open(target, data, reading, data_dir, cache, device, verbose=not quiet)
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
@reads_data
def plot(
    kind: Annotated[str, typer.Argument(help=KINDS)],
    target: TargetPath,
    output: Annotated[Path, typer.Option(help="The picture: .png, .pdf or .svg.")],
    place: Annotated[
        str | None, typer.Option("--in", help="One environment, for love, tables and overlap.")
    ] = None,
    data: OwnData = None,
    *,
    reading: dict[str, Any],
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
    opened = _open(target, data, reading, data_dir, cache, device, verbose=True)
    save_figure(draw_plot(kind, opened, environment=place, seed=seed), output)
    typer.echo(output)


def _open(
    target: Path,
    data: str | None,
    reading: dict[str, Any],
    data_dir: Path | None,
    cache: Path | None,
    device: str,
    *,
    verbose: bool,
) -> Target:
    """The target, with its data where they were named."""
    from equipoise.algorithms import choose_device
    from equipoise.report import open_target

    if data is None and reading:
        raise ValueError(f"{', '.join(reading)} say how to read --data: name the data as well")
    dataset = None if data is None else open_data(data, data_dir, reading, verbose=verbose)
    return open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
    )
