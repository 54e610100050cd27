"""`equipoise demo`, `list`, `reproduce` and `theory`: what needs no data of one's own."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import (
    Choices,
    DataDir,
    Device,
    Json,
    Quiet,
    Seed,
    plain_errors,
    print_json,
    print_tables,
    say,
)

METRIC_MEANINGS = {
    "kl": "Kullback-Leibler divergence of the anchor's score from the candidate's",
    "l1": "sum of absolute differences of probabilities",
    "l2": "Euclidean distance of probabilities",
    "linf": "largest absolute difference of probabilities",
}


Kind = StrEnum("Kind", ["datasets", "algorithms", "metrics", "selections"])


@plain_errors
def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Json = False,
) -> None:
    """List what can be named in other commands, with a line on each."""
    names = _names_of(kind)
    if as_json:
        print_json(names)
        return
    table = Table("name", "what it is", title=kind.value)
    for name, meaning in names.items():
        table.add_row(escape(name), escape(meaning))
    Console().print(table)


def _names_of(kind: Kind) -> dict[str, str]:
    # Imported here: `equipoise --help` must not wait for torch.
    if kind is Kind.datasets:
        from equipoise.data import list_datasets

        return list_datasets()
    if kind is Kind.algorithms:
        from equipoise.algorithms import get_algorithm, list_algorithms

        return {name: _first_line(get_algorithm(name)) for name in list_algorithms()}
    if kind is Kind.metrics:
        return METRIC_MEANINGS
    from equipoise.benchmark import RULES

    return {name: _first_line(rule) for name, rule in RULES.items()}


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


@plain_errors
def demo(
    dataset: Annotated[str, typer.Option(help="Dataset to run on.")] = "ColoredMNIST10",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each run; the recipe's if not set.")
    ] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the steps.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for pictures and results.json.")] = Path(
        "demo"
    ),
    data_dir: DataDir = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Watch balancing work: find what varies, match, train with random and balanced batches."""
    from equipoise.demo import run_demo

    results = run_demo(
        output,
        dataset=dataset,
        steps=steps,
        seed=seed,
        quick=quick,
        data_dir=data_dir,
        device=device,
        console=Console(stderr=as_json),
    )
    if as_json:
        print_json(results)


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
    data_seed: Annotated[
        int, typer.Option(min=0, help="Seed of the data, such as the deal of the digits.")
    ] = 0,
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
    if data_seed:
        given["data_seed"] = data_seed
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
FirstSeed = Annotated[
    int, typer.Option(min=0, help="First seed; every random draw follows from it.")
]
Output = Annotated[Path, typer.Option(help="Directory of records, tables and plot; resumes there.")]


def _add_theorem(name: str, meaning: str) -> None:
    """A command that calls `equipoise.theory.run_NAME`."""

    @theory.command(
        name, help=meaning, epilog=f"Example: equipoise theory {name} --output theory/{name}"
    )
    @plain_errors
    def run_theorem(
        seed: FirstSeed = 0,
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
