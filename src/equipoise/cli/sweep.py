"""`equipoise sweep`, `equipoise table` and `equipoise import-sweep`: many runs and their tables."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import (
    DataDir,
    Device,
    Json,
    Quiet,
    command,
    opt,
    print_json,
    print_tables,
    say,
)

if TYPE_CHECKING:
    from equipoise.benchmark import Workers


@command
def sweep(
    spec: Annotated[Path, typer.Argument(help="YAML file of the sweep; see docs/benchmark.md.")],
    output: Annotated[Path, opt("Directory of the runs; sweeps may share one.")] = Path("runs"),
    workers: Annotated[
        int | None, opt("Runs at the same time; 1 if not set; 0 trains in this process.", min=0)
    ] = None,
    ray: Annotated[bool, opt("Distribute the runs with Ray.", "--ray")] = False,
    ray_address: Annotated[
        str | None, opt("Address of a Ray cluster, or auto; a local one starts if not set.")
    ] = None,
    cpus_per_run: Annotated[float, opt("CPUs that Ray reserves for a run.")] = 1.0,
    gpus_per_run: Annotated[float, opt("GPUs that Ray reserves for a run.")] = 0.0,
    device: Device = "cpu",
    data_dir: DataDir = None,
    dry_run: Annotated[bool, opt("List the runs, train none.", "--dry-run")] = False,
    as_json: Annotated[bool, opt("Print the listed runs as JSON.", "--json")] = False,
    quiet: Quiet = False,
) -> None:
    """Train every run of a sweep; an interrupted sweep resumes with the same command."""
    from equipoise.benchmark import plan_sweep, read_sweep, run_sweep, write_manifest

    described = read_sweep(spec, data_dir=data_dir, execute=not dry_run)
    runs = plan_sweep(described, data_dir=data_dir)
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
    )
    if not quiet:
        say(
            f"{len(result.results)} of {len(runs)} runs are finished in {output}; "
            f"equipoise table {manifest} tabulates them",
            error=True,
        )
    if result.errors:
        say(
            f"{len(result.errors)} failed; each says why in its error.json. The same command "
            "tries them again",
            error=True,
            style="red",
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


Format = StrEnum("Format", ["terminal", "markdown", "latex", "csv"])
Spread = StrEnum("Spread", ["deviation", "error", "domainbed"])


@command
def table(
    runs: Annotated[
        Path, typer.Argument(help="Directory of runs or DomainBed logs, or a sweep's sweep-….json.")
    ],
    selection: Annotated[
        list[str] | None, opt("A rule of `equipoise list selections`; repeatable; all if not set.")
    ] = None,
    spread: Annotated[
        Spread, opt("Deviation over seeds, error of the mean, or DomainBed's.")
    ] = Spread.deviation,
    by: Annotated[
        list[str] | None,
        opt("A setting that gets rows of its own, e.g. degree_of_balancing; repeatable."),
    ] = None,
    where: Annotated[
        list[str] | None, opt("Only runs with this setting, name=value; repeatable.")
    ] = None,
    format: Annotated[Format, opt("Format of the printed table.")] = Format.terminal,
    output: Annotated[Path | None, opt("A file: .md, .tex or .csv; printed if not set.")] = None,
    as_json: Json = False,
) -> None:
    """Tabulate finished runs: mean ± spread over seeds, by selection rule, beside the paper's."""
    from equipoise import benchmark

    rules = selection or list(benchmark.RULES)
    found = benchmark.collect_runs(runs, where=where or ())
    selected = benchmark.select_runs(found, rules, by=by or ())
    if not selected:
        raise ValueError(
            f"none of the rules {', '.join(rules)} can choose among the runs in "
            f"{runs}: leave-one-domain-out needs a sweep with leave_one_domain_out: true, "
            "balanced needs runs with a balancer"
        )
    tables = benchmark.make_tables(selected, spread=spread.value)
    if output is not None:
        benchmark.write_tables(tables, output)
    if as_json or (output is None and format is Format.terminal):
        print_tables(tables, as_json=as_json)
    elif output is None:
        typer.echo(benchmark.FORMATS[format.value](tables), nl=False)


@command
def import_sweep(
    directory: Annotated[Path, typer.Argument(help="A DomainBed sweep: a folder for each run.")],
    selection: Annotated[
        str, opt("train-domain, leave-one-domain-out or test-domain.")
    ] = "train-domain",
    output: Annotated[
        Path | None, opt("Sweep file with the chosen hyperparameters, .yaml.")
    ] = None,
    table: Annotated[Path | None, opt("The table as .md, .tex or .csv.")] = None,
    spread: Annotated[
        Spread, opt("As DomainBed prints it, or deviation or error over seeds.")
    ] = Spread.domainbed,
    as_json: Json = False,
) -> None:
    """Read DomainBed's logs: their table, and the chosen hyperparameters as a sweep of ours."""
    from equipoise import benchmark
    from equipoise.files import write_whole

    selected = benchmark.select_runs(benchmark.read_domainbed(directory), [selection])
    if not selected:
        raise ValueError(
            f"the rule {selection!r} cannot choose among the runs in {directory}: balanced needs "
            "a balancer, which DomainBed does not have; leave-one-domain-out needs runs that leave "
            "out every pair of environments"
        )
    tables = benchmark.make_tables(selected, spread=spread.value)
    print_tables(tables, as_json=as_json)
    if table is not None:
        benchmark.write_tables(tables, table)
    if output is None:
        return
    text, left_out = benchmark.write_chosen(selected)
    with write_whole(output) as temporary:
        temporary.write_text(text)
    if left_out:
        say(
            f"left out, since equipoise has no such setting: {', '.join(left_out)}",
            error=True,
        )
    say(f"equipoise sweep {output} trains with what was chosen", error=True)
