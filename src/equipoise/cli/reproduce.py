"""`equipoise demo`, `list`, `reproduce` and `theory`: what needs no data of one's own."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import arg, command, opt, print_json, print_tables, say

METRIC_MEANINGS = {
    "kl": "Kullback-Leibler divergence of the anchor's score from the candidate's",
    "l1": "sum of absolute differences of probabilities",
    "l2": "Euclidean distance of probabilities",
    "linf": "largest absolute difference of probabilities",
}


Kind = StrEnum("Kind", ["datasets", "algorithms", "metrics", "selections"])


@command
def list_names(kind: Kind = arg("What to list."), as_json: bool = False) -> None:
    """List what can be named in other commands, with a line on each."""
    names: dict[str, Any] = METRIC_MEANINGS
    if kind is Kind.datasets:
        from equipoise.data import list_datasets

        names = list_datasets()
    elif kind is Kind.algorithms:
        from equipoise.algorithms import get_algorithm, list_algorithms

        names = {name: get_algorithm(name) for name in list_algorithms()}
    elif kind is Kind.selections:
        from equipoise.benchmark import RULES

        names = RULES
    # What something is stands in the first line of its docstring.
    texts = {
        name: what if isinstance(what, str) else (what.__doc__ or "").strip().split("\n")[0]
        for name, what in names.items()
    }
    if as_json:
        print_json(texts)
        return
    table = Table("name", "what it is", title=kind.value)
    for name, meaning in texts.items():
        table.add_row(escape(name), escape(meaning))
    Console().print(table)


@command
def demo(
    dataset: str = opt("Dataset to run on.", "ColoredMNIST10"),
    steps: int | None = opt("Training steps of each run; the recipe's if not set.", min=1),
    seed: int = 0,
    quick: bool = opt("A quarter of the steps.", False),
    output: Path = opt("Directory for pictures and results.json.", Path("demo")),
    data_dir: Path | None = None,
    device: str = "cpu",
    as_json: bool = False,
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


@command
def reproduce(
    exhibit: ExhibitName = arg("A table or figure of the paper, or one of ours."),
    profile: Profile = opt("quick: small CNN, minutes a run; paper: as published.", Profile.quick),
    output: Path = opt("Directory of table, plot and records.", Path("results")),
    runs: Path = opt("Directory of the runs; finished runs are reused.", Path("runs")),
    seeds: int = opt("Number of seeds, counted from 0.", 3, min=1),
    workers: int = opt("Runs at the same time; 0 trains in this process.", 1, min=0),
    features: Path | None = opt("table2 on frozen features, from `equipoise data features`."),
    data_seed: int = opt("Seed of the data, such as the deal of the digits.", 0, min=0),
    choices: list[str] | None = None,
    device: str = "cpu",
    data_dir: Path | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Reproduce a table or figure; an interrupted command resumes when it is given again."""
    from equipoise.benchmark import parse_choices
    from equipoise.exhibits import EXHIBITS, ExhibitRequest

    if features is not None and exhibit is not ExhibitName.table2:
        raise ValueError(f"--features is for table2 only, got {exhibit.value}")
    given = {name: value for name, value in parse_choices(choices or []).items() if value != {}}
    if data_seed and "data_seed" in given:
        raise ValueError("data_seed is given twice: --data-seed and --set data_seed=…")
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


def _add_theorem(name: str, meaning: str) -> None:
    """A command that calls `equipoise.theory.run_NAME`."""

    @theory.command(
        name, help=meaning, epilog=f"Example: equipoise theory {name} --output theory/{name}"
    )
    @command
    def run_theorem(
        seed: int = opt("First seed; every random draw follows from it.", 0, min=0),
        output: Path = opt(
            "Directory of records, tables and plot; resumes there.", Path("theory", name)
        ),
        quick: bool = opt("Small sizes, for a first look.", False),
        jobs: int = opt("Number of processes; -1 for every core.", 1),
        as_json: bool = False,
        quiet: bool = False,
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
