"""`equipoise table`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors


class Format(StrEnum):
    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"


class Spread(StrEnum):
    deviation = "deviation"
    error = "error"


@plain_errors
def table(
    runs: Annotated[
        Path, typer.Argument(help="Directory of runs, or the sweep-….json that a sweep left there.")
    ],
    selection: Annotated[
        list[str] | None,
        typer.Option(help="A rule of `equipoise list selections`; repeatable; all if not set."),
    ] = None,
    spread: Annotated[
        Spread, typer.Option(help="Standard deviation over seeds, or error of the mean.")
    ] = Spread.deviation,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A setting that tells rows apart, e.g. degree_of_balancing; repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only runs with this setting, name=value; repeatable."),
    ] = None,
    format: Annotated[Format, typer.Option(help="How to write it.")] = Format.terminal,
    output: Annotated[
        Path | None, typer.Option(help="A file: .md, .tex or .csv; printed if not set.")
    ] = None,
) -> None:
    """Tabulate finished runs: mean ± spread over seeds, by selection rule, beside the paper's."""
    from equipoise.benchmark.collect_runs import collect_runs
    from equipoise.benchmark.selected_runs import select_runs
    from equipoise.benchmark.selection import RULES
    from equipoise.benchmark.sweep_table import make_tables
    from equipoise.benchmark.table_files import FORMATS, write_tables

    found = collect_runs(runs, where=where or ())
    selected = select_runs(found, selection or list(RULES), by=by or ())
    if not selected:
        raise ValueError(
            f"none of the rules {', '.join(selection or RULES)} can choose among the runs in "
            f"{runs}: leave-one-domain-out needs a sweep with leave_one_domain_out: true, "
            "balanced needs runs with a balancer"
        )
    tables = make_tables(selected, spread=spread.value)
    if output is not None:
        write_tables(tables, output)
    elif format is Format.terminal:
        for each in tables:
            Console().print(each.to_rich())
    else:
        typer.echo(FORMATS[format.value](tables), nl=False)
