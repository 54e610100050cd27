"""`equipoise list`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from equipoise.cli.errors import plain_errors

METRIC_MEANINGS = {
    "kl": "Kullback-Leibler divergence of the anchor's score from the candidate's",
    "l1": "sum of absolute differences of probabilities",
    "l2": "Euclidean distance of probabilities",
    "linf": "largest absolute difference of probabilities",
}


class Kind(StrEnum):
    datasets = "datasets"
    algorithms = "algorithms"
    metrics = "metrics"
    selections = "selections"


@plain_errors
def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """List what can be named in other commands, with a line on each."""
    names = _names_of(kind)
    if as_json:
        typer.echo(json.dumps(names, indent=2))
        return
    table = Table("name", "what it is", title=kind.value)
    for name, meaning in names.items():
        table.add_row(name, meaning)
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
