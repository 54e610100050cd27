"""`equipoise list` and `equipoise demo`: what there is, and a first look at it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import DataDir, Device, Json, Seed, plain_errors, print_json

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
