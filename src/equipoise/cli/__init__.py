"""The commands, thin: parse, call, print. One file each, put together here.

A command imports what it calls inside its function: `equipoise --help` must not wait for torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from equipoise.checks import require

require("typer", extra="cli")
require("rich", extra="cli")

import typer

from equipoise import __version__
from equipoise.cli import balance, data, reproduce, sweep, train

app = typer.Typer(
    name="equipoise",
    help="Take the spurious correlation out of training batches.",
    epilog="Example: equipoise demo --quick",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Take the spurious correlation out of training batches."""


def _add(command: Callable[..., Any], example: str, *, name: str | None = None) -> None:
    app.command(name, epilog=f"Example: {example}")(command)


_add(reproduce.demo, "equipoise demo --dataset ColoredMNIST --output demo-two-colours")
_add(
    balance.balance,
    "equipoise balance patients.csv --label ill --environment hospital --output out",
)
_add(
    train.train,
    "equipoise train --dataset ColoredMNIST10 --algorithm CORAL "
    "--sampling balanced --test-environment 2 --seed 0 --output runs/x --quick",
)
_add(train.predict, "equipoise predict runs/x --input digits.npy --output labels.csv")
_add(train.export, "equipoise export runs/x --format onnx --output model.onnx")
_add(balance.report, "equipoise report runs/x --output report.html")
_add(balance.plot, "equipoise plot love runs/x --output love.pdf")
_add(reproduce.list_names, "equipoise list algorithms --json", name="list")
_add(sweep.sweep, "equipoise sweep sweep.yaml --output runs --workers 2")
_add(
    sweep.import_sweep,
    "equipoise import-sweep domainbed/sweep --selection train-domain --output chosen.yaml",
    name="import-sweep",
)
_add(sweep.table, "equipoise table runs/sweep-sweep.json --selection balanced --format markdown")
_add(
    reproduce.reproduce,
    "equipoise reproduce table1 --profile quick --output results --seeds 3 --workers 2",
)
app.add_typer(data.app, name="data")
app.add_typer(reproduce.theory, name="theory")


def main() -> None:
    """Entry point of the `equipoise` command."""
    app(prog_name="equipoise")
