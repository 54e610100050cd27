"""`equipoise import-sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors
from equipoise.cli.table import Spread


@plain_errors
def import_sweep(
    directory: Annotated[Path, typer.Argument(help="A DomainBed sweep: a folder for each run.")],
    selection: Annotated[
        str, typer.Option(help="train-domain, leave-one-domain-out or test-domain.")
    ] = "train-domain",
    output: Annotated[
        Path | None, typer.Option(help="Sweep file with the chosen hyperparameters, .yaml.")
    ] = None,
    table: Annotated[Path | None, typer.Option(help="The table as .md, .tex or .csv.")] = None,
    spread: Annotated[
        Spread, typer.Option(help="Standard deviation over seeds, or error of the mean.")
    ] = Spread.error,
) -> None:
    """Read DomainBed's logs: their table, and the chosen hyperparameters as a sweep of ours."""
    from equipoise.benchmark.chosen_hyperparameters import write_chosen
    from equipoise.benchmark.domainbed_logs import read_domainbed
    from equipoise.benchmark.selected_runs import select_runs
    from equipoise.benchmark.sweep_table import make_tables
    from equipoise.benchmark.table_files import write_tables
    from equipoise.files import write_whole

    selected = select_runs(read_domainbed(directory), [selection])
    if not selected:
        raise ValueError(
            f"the rule {selection!r} cannot choose among the runs in {directory}: balanced needs "
            "a balancer, which DomainBed has not, and leave-one-domain-out runs with every pair "
            "of environments left out"
        )
    tables = make_tables(selected, spread=spread.value)
    for each in tables:
        Console().print(each.to_rich())
    if table is not None:
        write_tables(tables, table)
    if output is None:
        return
    chosen = write_chosen(selected)
    with write_whole(output) as temporary:
        temporary.write_text(chosen.text)
    console = Console(stderr=True)
    if chosen.left_out:
        console.print(f"without a counterpart here: {', '.join(chosen.left_out)}", highlight=False)
    console.print(f"equipoise sweep {output} trains with what was chosen", highlight=False)
