"""`equipoise sweep`, `equipoise table` and `equipoise import-sweep`: many runs and their tables."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from equipoise.cli.errors import plain_errors
from equipoise.cli.options import DataDir, Device, Json, Quiet, print_json

if TYPE_CHECKING:
    from equipoise.benchmark import Workers


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
    device: Device = "cpu",
    data_dir: DataDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, train none.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the listed runs as JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Carry out every run of a sweep; stopped anywhere, the same command goes on."""
    from equipoise.benchmark import plan_sweep, read_sweep, run_sweep, write_manifest

    described = read_sweep(spec, data_dir=data_dir, execute=not dry_run)
    runs = plan_sweep(described, data_dir=data_dir)
    console = Console(stderr=True)
    if as_json and not dry_run:
        raise ValueError("--json lists the runs of --dry-run; `equipoise table` has it for results")
    if dry_run and as_json:
        print_json([{"name": run.name, **asdict(run.settings)} for run in runs])
        return
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
            markup=False,
            highlight=False,
        )
    if result.errors:
        console.print(
            f"{len(result.errors)} failed; each says why in its error.json. The same command "
            "tries them again",
            style="red",
            markup=False,
            highlight=False,
        )
        raise typer.Exit(1)


def _choose_workers(
    n_workers: int | None, ray: bool, address: str | None, cpus: float, gpus: float
) -> Workers:
    from equipoise.benchmark import InlineWorker, LocalWorkers, RayWorkers

    if not ray:
        if address is not None:
            raise ValueError("--ray-address is of a Ray cluster: give --ray as well")
        return InlineWorker() if n_workers == 0 else LocalWorkers(n_workers or 1)
    return RayWorkers(cpus_per_run=cpus, gpus_per_run=gpus, address=address, n_workers=n_workers)


class Format(StrEnum):
    terminal = "terminal"
    markdown = "markdown"
    latex = "latex"
    csv = "csv"
    json = "json"


class Spread(StrEnum):
    deviation = "deviation"
    error = "error"
    domainbed = "domainbed"


@plain_errors
def table(
    runs: Annotated[
        Path, typer.Argument(help="Directory of runs or DomainBed logs, or a sweep's sweep-….json.")
    ],
    selection: Annotated[
        list[str] | None,
        typer.Option(help="A rule of `equipoise list selections`; repeatable; all if not set."),
    ] = None,
    spread: Annotated[
        Spread, typer.Option(help="Deviation over seeds, error of the mean, or DomainBed's.")
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
    as_json: Json = False,
) -> None:
    """Tabulate finished runs: mean ± spread over seeds, by selection rule, beside the paper's."""
    from equipoise.benchmark import (
        FORMATS,
        RULES,
        collect_runs,
        make_tables,
        select_runs,
        write_tables,
    )

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
    if as_json or format is Format.json:
        print_json([asdict(each) for each in tables])
    elif output is not None:
        return
    elif format is Format.terminal:
        for each in tables:
            Console().print(each.to_rich())
    else:
        typer.echo(FORMATS[format.value](tables), nl=False)


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
        Spread, typer.Option(help="As DomainBed prints it, or deviation or error over seeds.")
    ] = Spread.domainbed,
    as_json: Json = False,
) -> None:
    """Read DomainBed's logs: their table, and the chosen hyperparameters as a sweep of ours."""
    from equipoise.benchmark import (
        make_tables,
        read_domainbed,
        select_runs,
        write_chosen,
        write_tables,
    )
    from equipoise.files import write_whole

    selected = select_runs(read_domainbed(directory), [selection])
    if not selected:
        raise ValueError(
            f"the rule {selection!r} cannot choose among the runs in {directory}: balanced needs "
            "a balancer, which DomainBed has not, and leave-one-domain-out runs with every pair "
            "of environments left out"
        )
    tables = make_tables(selected, spread=spread.value)
    if as_json:
        print_json([asdict(each) for each in tables])
    else:
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
        console.print(
            f"without a counterpart here: {', '.join(chosen.left_out)}",
            markup=False,
            highlight=False,
        )
    console.print(
        f"equipoise sweep {output} trains with what was chosen", markup=False, highlight=False
    )
