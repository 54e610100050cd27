"""`equipoise sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors


@plain_errors
def sweep(
    spec: Annotated[Path, typer.Argument(help="YAML file of the sweep; see docs/benchmark.md.")],
    output: Annotated[
        Path, typer.Option(help="Directory of the runs; sweeps may share one.")
    ] = Path("runs"),
    workers: Annotated[int, typer.Option(min=1, help="Runs at the same time.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, train none.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Carry out every run of a sweep; stopped anywhere, the same command goes on."""
    from equipoise.benchmark.local_workers import LocalWorkers
    from equipoise.benchmark.sweep import run_sweep
    from equipoise.benchmark.sweep_file import read_sweep
    from equipoise.benchmark.sweep_plan import plan_sweep

    described = read_sweep(spec)
    runs = plan_sweep(described, data_dir=data_dir)
    console = Console(stderr=True)
    if dry_run:
        for run in runs:
            typer.echo(f"{run.name}\t{run}")
        return
    result = run_sweep(
        runs,
        output,
        workers=LocalWorkers(workers),
        imports=described.imports,
        data_dir=data_dir,
        device=device,
        verbose=not quiet,
        console=console,
    )
    if not quiet:
        console.print(f"{len(result.results)} runs are finished in {output}", highlight=False)
    if result.errors:
        console.print(
            f"{len(result.errors)} failed; each says why in its error.json. The same command "
            "tries them again",
            style="red",
            highlight=False,
        )
        raise typer.Exit(1)
