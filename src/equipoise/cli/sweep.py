"""`equipoise sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors

if TYPE_CHECKING:
    from equipoise.benchmark.sweep import Workers


@plain_errors
def sweep(
    spec: Annotated[Path, typer.Argument(help="YAML file of the sweep; see docs/benchmark.md.")],
    output: Annotated[
        Path, typer.Option(help="Directory of the runs; sweeps may share one.")
    ] = Path("runs"),
    workers: Annotated[
        int | None,
        typer.Option(min=0, help="Runs at the same time; 1 if not set; 0 trains in this process."),
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Let Ray carry out the runs.")] = False,
    ray_address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, or auto; if not set one starts here.")
    ] = None,
    cpus_per_run: Annotated[float, typer.Option(help="Set aside by Ray.")] = 1.0,
    gpus_per_run: Annotated[float, typer.Option(help="Set aside by Ray.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, train none.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Carry out every run of a sweep; stopped anywhere, the same command goes on."""
    from equipoise.benchmark.sweep import run_sweep
    from equipoise.benchmark.sweep_file import read_sweep
    from equipoise.benchmark.sweep_manifest import write_manifest
    from equipoise.benchmark.sweep_plan import plan_sweep

    described = read_sweep(spec, data_dir=data_dir)
    runs = plan_sweep(described, data_dir=data_dir)
    console = Console(stderr=True)
    if dry_run:
        for run in runs:
            typer.echo(f"{run.name}\t{run}")
        return
    manifest = write_manifest(output, spec.stem, runs)
    result = run_sweep(
        runs,
        output,
        workers=_choose_workers(workers, ray, ray_address, cpus_per_run, gpus_per_run),
        imports=described.imports,
        data_dir=data_dir,
        device=device,
        verbose=not quiet,
        console=console,
    )
    if not quiet:
        console.print(
            f"{len(result.results)} of {len(runs)} runs are finished in {output}; "
            f"equipoise table {manifest} tabulates them",
            highlight=False,
        )
    if result.errors:
        console.print(
            f"{len(result.errors)} failed; each says why in its error.json. The same command "
            "tries them again",
            style="red",
            highlight=False,
        )
        raise typer.Exit(1)


def _choose_workers(
    n_workers: int | None, ray: bool, address: str | None, cpus: float, gpus: float
) -> Workers:
    from equipoise.benchmark.local_workers import InlineWorker, LocalWorkers
    from equipoise.benchmark.ray_workers import RayWorkers

    if not ray:
        if address is not None:
            raise ValueError("--ray-address is of a Ray cluster: give --ray as well")
        return InlineWorker() if n_workers == 0 else LocalWorkers(n_workers or 1)
    return RayWorkers(cpus_per_run=cpus, gpus_per_run=gpus, address=address, n_workers=n_workers)
