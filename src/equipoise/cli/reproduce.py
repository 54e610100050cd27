"""`equipoise reproduce` and `equipoise theory`: the paper's exhibits and theorems, run."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.options import (
    Choices,
    DataDir,
    Device,
    Json,
    Quiet,
    plain_errors,
    print_json,
    print_tables,
    say,
)

ExhibitName = StrEnum(
    "ExhibitName",
    "table1 table2 table4 figure3 figure4a figure4b figure4c figure5 validation rivals",
)
Profile = StrEnum("Profile", ["quick", "paper"])


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
    runs: Annotated[
        Path, typer.Option(help="Directory of the runs; finished runs are reused.")
    ] = Path("runs"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, counted from 0.")] = 3,
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
    """Reproduce a table or figure; an interrupted command resumes when it is given again."""
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
    print_tables(made.tables, as_json=False)
    for sentence in made.sentences:
        say(sentence)
    say(f"written: {', '.join(map(str, made.files))}")


theory = typer.Typer(
    name="theory",
    help="Run the paper's theorems as experiments: each ends in a table, a plot and a sentence.",
    epilog="Example: equipoise theory minimax --quick --output theory/minimax",
    no_args_is_help=True,
)

THEOREMS = {
    "identifiability": "Theorem 3.3: is Z recovered from enough environments, and only then?",
    "balance": "Theorems 3.6 and 3.7: which functions balance, and each label's share in batches.",
    "minimax": "Theorem 2.4: has the balanced Bayes classifier the least worst-case risk?",
}
Seed = Annotated[int, typer.Option(min=0, help="First seed; every random draw follows from it.")]
Output = Annotated[Path, typer.Option(help="Directory of records, tables and plot; resumes there.")]


def _add_theorem(name: str, meaning: str) -> None:
    """A command that calls `equipoise.theory.run_NAME`."""

    @theory.command(
        name, help=meaning, epilog=f"Example: equipoise theory {name} --output theory/{name}"
    )
    @plain_errors
    def run_theorem(
        seed: Seed = 0,
        output: Output = Path("theory", name),
        quick: Annotated[
            bool, typer.Option("--quick", help="Small sizes, for a first look.")
        ] = False,
        jobs: Annotated[int, typer.Option(help="Number of processes; -1 for every core.")] = 1,
        as_json: Json = False,
        quiet: Quiet = False,
    ) -> None:
        if jobs == 0:
            raise ValueError("--jobs 0 runs nothing: give 1 or more, or -1 for every core")
        if output.exists() and not output.is_dir():
            raise ValueError(f"{output} is a file: --output must name a directory")
        run = getattr(import_module("equipoise.theory"), f"run_{name}")
        outcome = run(output, seed=seed, quick=quick, n_jobs=jobs, verbose=not quiet)
        if as_json:
            tables = {title: table.to_dict("records") for title, table in outcome.tables.items()}
            print_json({"holds": outcome.holds, "sentence": outcome.sentence, "tables": tables})
        elif not quiet:
            outcome.show(Console())
            say(f"records, tables and plot are in {output}/")


for _name, _meaning in THEOREMS.items():
    _add_theorem(_name, _meaning)
