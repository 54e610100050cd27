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
from equipoise.cli import balance, data, reproduce, runs

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


#: Commands in the order of the help, each with an example, which begins with its name.
COMMANDS: dict[str, Callable[..., Any]] = {
    "demo --dataset ColoredMNIST --output demo-two-colours": reproduce.demo,
    "balance patients.csv --label ill --environment hospital --output out": balance.balance,
    "train --dataset ColoredMNIST10 --algorithm CORAL --sampling balanced "
    "--test-environment 2 --seed 0 --output runs/x --quick": runs.train,
    "predict runs/x --input digits.npy --output labels.csv": runs.predict,
    "export runs/x --format onnx --output model.onnx": runs.export,
    "report runs/x --output report.html": balance.report,
    "plot love runs/x --output love.pdf": balance.plot,
    "list algorithms --json": reproduce.list_names,
    "sweep sweep.yaml --output runs --workers 2": runs.sweep,
    "import-sweep domainbed/sweep --selection train-domain --output chosen.yaml": runs.import_sweep,
    "table runs/sweep-sweep.json --selection balanced --format markdown": runs.table,
    "reproduce table1 --profile quick --output results --seeds 3 --workers 2": reproduce.reproduce,
    "data check data/PACS --dataset PACS": data.check,
    "data features photos --backbone timm/resnet50 --output features": data.features,
    "data pack patients.csv --label ill --environment hospital --output patients": data.pack,
}
GROUPS = {"data": data.app, "theory": reproduce.theory}
for _example, _command in COMMANDS.items():
    _first, _second, *_ = _example.split()
    _group, _name = (GROUPS[_first], _second) if _first in GROUPS else (app, _first)
    _group.command(_name, epilog=f"Example: equipoise {_example}")(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """Entry point of the `equipoise` command."""
    app(prog_name="equipoise")
