"""`equipoise report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli import target as of_target
from equipoise.cli.errors import plain_errors


@plain_errors
def report(
    target: of_target.TargetPath,
    output: Annotated[
        Path | None, typer.Option(help="The page; by default report.html in or beside the target.")
    ] = None,
    data: of_target.Data = None,
    label: of_target.Label = None,
    environment: of_target.Environment = None,
    features: of_target.Features = None,
    image_size: of_target.ImageSize = None,
    data_dir: of_target.DataDir = None,
    cache: of_target.Cache = None,
    title: Annotated[str | None, typer.Option(help="Of the page.")] = None,
    seed: of_target.Seed = 0,
    device: of_target.Device = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no messages.")] = False,
) -> None:
    """Write one HTML page on a run or a balancer: verdict, balance, matches, curves."""
    from equipoise.report import write_report

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
