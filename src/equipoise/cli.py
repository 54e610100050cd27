"""The commands: parse, call, print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise import __version__

app = typer.Typer(
    name="equipoise",
    help="Take the spurious correlation out of training batches.",
    epilog="Example: equipoise demo --quick",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake ends in one sentence and exit code 2, Ctrl-C in 130; no traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError) as error:
            Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted; the same command goes on where it stopped")
            raise typer.Exit(130) from None

    return guarded


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Take the spurious correlation out of training batches."""


class Kind(StrEnum):
    datasets = "datasets"
    algorithms = "algorithms"
    metrics = "metrics"
    selections = "selections"


@app.command("list", epilog="Example: equipoise list algorithms --json")
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
        from equipoise.balance import METRICS

        return dict(METRICS)
    from equipoise.benchmark import SELECTIONS

    return {name: _first_line(selection) for name, selection in SELECTIONS.items()}


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


def main() -> None:
    """Entry point of the `equipoise` command."""
    app(prog_name="equipoise")


if __name__ == "__main__":
    sys.exit(main())
