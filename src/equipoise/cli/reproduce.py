"""`equipoise reproduce`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors


class ExhibitName(StrEnum):
    table1 = "table1"
    table2 = "table2"
    table4 = "table4"
    figure3 = "figure3"
    figure4a = "figure4a"
    figure4b = "figure4b"
    figure4c = "figure4c"
    figure5 = "figure5"
    validation = "validation"


class Profile(StrEnum):
    quick = "quick"
    paper = "paper"


@plain_errors
def reproduce(
    exhibit: Annotated[
        ExhibitName, typer.Argument(help="A table or figure of the paper, or our validation.")
    ],
    profile: Annotated[
        Profile, typer.Option(help="quick: small CNN, minutes a run; paper: as published.")
    ] = Profile.quick,
    output: Annotated[Path, typer.Option(help="Directory of table, plot and records.")] = Path(
        "results"
    ),
    runs: Annotated[Path, typer.Option(help="Directory of the runs; finished ones stay.")] = Path(
        "runs"
    ),
    seeds: Annotated[int, typer.Option(min=1, help="How many, from 0.")] = 3,
    workers: Annotated[
        int, typer.Option(min=0, help="Runs at the same time; 0 trains in this process.")
    ] = 1,
    choices: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of every run, name=value; repeatable."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no table.")] = False,
) -> None:
    """Make an exhibit of the paper again; stopped anywhere, the same command goes on."""
    from equipoise.benchmark.parsing import parse_choices
    from equipoise.exhibits import EXHIBITS, ExhibitRequest

    given = {name: value for name, value in parse_choices(choices or []).items() if value != {}}
    request = ExhibitRequest(
        output=output,
        runs=runs,
        profile=profile.value,
        seeds=seeds,
        workers=workers,
        data_dir=data_dir,
        device=device,
        settings=given,
        verbose=not quiet,
    )
    made = EXHIBITS[exhibit.value](request)
    if quiet:
        return
    console = Console()
    for table in made.tables:
        console.print(table.to_rich())
    for sentence in made.sentences:
        console.print(sentence, markup=False, highlight=False)
    console.print(f"written: {', '.join(map(str, made.files))}", markup=False, highlight=False)
