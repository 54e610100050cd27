"""`equipoise report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.errors import plain_errors


@plain_errors
def report(
    target: Annotated[
        Path, typer.Argument(help="Directory of a run, or a saved balancer or its directory.")
    ],
    output: Annotated[
        Path | None, typer.Option(help="The page; by default report.html beside the target.")
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
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the examples drawn to be shown.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no messages.")] = False,
) -> None:
    """Write one HTML page on a run or a balancer: verdict, balance, matches, curves."""
    from equipoise.benchmark.devices import choose_device
    from equipoise.cli.data import collect_options, open_data
    from equipoise.report import write_report
    from equipoise.report.opening import open_target

    columns = [name for value in features or [] for name in value.split(",")]
    options = collect_options(image_size, None, label, environment, columns, None)
    dataset = None if data is None else open_data(data, data_dir, options, verbose=not quiet)
    opened = open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
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
