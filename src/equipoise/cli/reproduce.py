"""`equipoise reproduce` and `equipoise theory`: the paper's exhibits and theorems, run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors
from equipoise.cli.options import Choices, DataDir, Device, Json, Quiet, print_json


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
    rivals = "rivals"


class Profile(StrEnum):
    quick = "quick"
    paper = "paper"


@plain_errors
def reproduce(
    exhibit: Annotated[
        ExhibitName, typer.Argument(help="A table or figure of the paper, or one of ours.")
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
    features: Annotated[
        Path | None, typer.Option(help="table2 on frozen features, from `equipoise data features`.")
    ] = None,
    choices: Choices = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make an exhibit of the paper again; stopped anywhere, the same command goes on."""
    from equipoise.benchmark import parse_choices
    from equipoise.exhibits import EXHIBITS, ExhibitRequest

    if features is not None and exhibit is not ExhibitName.table2:
        raise ValueError(f"--features is for table2 only, got {exhibit.value}")
    given = {name: value for name, value in parse_choices(choices or []).items() if value != {}}
    request = ExhibitRequest(
        output=output,
        runs=runs,
        profile=profile.value,
        seeds=seeds,
        workers=workers,
        data_dir=data_dir,
        features=features,
        device=device,
        settings=given,
        verbose=not quiet,
    )
    made = EXHIBITS[exhibit.value](request)
    if as_json:
        tables = [asdict(table) for table in made.tables]
        print_json({"tables": tables, "sentences": made.sentences, "files": made.files})
    if quiet or as_json:
        return
    console = Console()
    for table in made.tables:
        console.print(table.to_rich())
    for sentence in made.sentences:
        console.print(sentence, markup=False, highlight=False)
    console.print(f"written: {', '.join(map(str, made.files))}", markup=False, highlight=False)


theory = typer.Typer(
    name="theory",
    help="Run the paper's theorems as experiments: each ends in a table, a plot and a sentence.",
    epilog="Example: equipoise theory minimax --quick --output theory/minimax",
    no_args_is_help=True,
)

Seed = Annotated[int, typer.Option(min=0, help="The first seed; every draw follows from it.")]
Quick = Annotated[bool, typer.Option("--quick", help="Small sizes: a look, not a result.")]
Jobs = Annotated[int, typer.Option(help="Processes side by side; -1 takes every core.")]
Output = Annotated[Path, typer.Option(help="Directory of records, tables and plot; goes on there.")]


@theory.command(epilog="Example: equipoise theory identifiability --jobs 2 --output theory/z")
@plain_errors
def identifiability(
    seed: Seed = 0,
    output: Output = Path("theory/identifiability"),
    quick: Quick = False,
    jobs: Jobs = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Theorem 3.3: is Z recovered from enough environments, and only then?"""
    from equipoise.theory import run_identifiability

    _carry_out(run_identifiability, output, seed, quick, jobs, as_json, quiet)


@theory.command(epilog="Example: equipoise theory balance --seed 1 --output theory/balance")
@plain_errors
def balance(
    seed: Seed = 0,
    output: Output = Path("theory/balance"),
    quick: Quick = False,
    jobs: Jobs = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Theorems 3.6 and 3.7: which functions balance, and what share each label gets in batches."""
    from equipoise.theory import run_balance

    _carry_out(run_balance, output, seed, quick, jobs, as_json, quiet)


@theory.command(epilog="Example: equipoise theory minimax --quick --output theory/minimax")
@plain_errors
def minimax(
    seed: Seed = 0,
    output: Output = Path("theory/minimax"),
    quick: Quick = False,
    jobs: Jobs = 1,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Theorem 2.4: has the balanced Bayes classifier the least worst-case risk?"""
    from equipoise.theory import run_minimax

    _carry_out(run_minimax, output, seed, quick, jobs, as_json, quiet)


def _carry_out(
    run: Callable[..., Any],
    output: Path,
    seed: int,
    quick: bool,
    jobs: int,
    as_json: bool,
    quiet: bool,
) -> None:
    if jobs == 0:
        raise ValueError("--jobs 0 leaves nobody to work: give 1 or more, or -1 for every core")
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file: --output must name a directory")
    outcome = run(output, seed=seed, quick=quick, n_jobs=jobs, verbose=not quiet)
    if as_json:
        tables = {title: table.to_dict("records") for title, table in outcome.tables.items()}
        print_json({"holds": outcome.holds, "sentence": outcome.sentence, "tables": tables})
    elif not quiet:
        console = Console()
        outcome.show(console)
        console.print(f"records, tables and plot are in {output}/", markup=False, highlight=False)
