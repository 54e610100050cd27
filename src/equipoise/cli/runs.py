"""Commands on runs: train, predict and export; sweep, table and import-sweep."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import (
    arg,
    check_options,
    command,
    drop_unset,
    opt,
    plain_notes,
    print_json,
    print_tables,
    say,
)

if TYPE_CHECKING:
    from equipoise.benchmark import RunResult, Workers


Form = StrEnum("Form", ["onnx", "torch"])


@command
def train(
    *,
    dataset: str = opt(
        "A name of `equipoise list datasets`, or the path of a folder tree of images, of "
        "a .csv, .parquet or .npz file, or of what `equipoise data pack` wrote.",
        ...,
    ),
    algorithm: str = opt("A name of `equipoise list algorithms`.", ...),
    test_environment: str = opt("Environment left out of training: name, position, or none.", ...),
    output: Path = opt("Directory of the run; an interrupted run resumes there.", ...),
    reading: dict[str, Any],
    sampling: str = opt("random, balanced, oracle or class-balanced.", "balanced"),
    seed: int = opt("Seed of weights, batches and the balancer.", 0),
    data_seed: int = opt("Seed of the data and their held-out part.", 0),
    quick: bool = opt("The quick recipe instead of DomainBed's.", False),
    choices: list[str] | None = None,
    steps: int | None = opt("Number of training steps."),
    checkpoint_every: int | None = opt("Training steps per evaluation."),
    featurizer: str | None = opt("mnist-cnn, small-cnn, mlp, resnet18, resnet50 or auto."),
    augmentation: str | None = opt("none, shift, affine or photo."),
    balance_features: Path | None = opt(
        "Fit the balancer on other features of the same examples, as `equipoise data "
        "features --statistics` writes them."
    ),
    select: list[str] | None = opt("Keep the best checkpoint by this rule; repeatable."),
    precision: str | None = opt("float32 or bf16."),
    device: str = "cpu",
    data_dir: Path | None = None,
    num_workers: int = opt("Processes that fetch examples ahead.", 0, min=0, max=1024),
    track: list[str] | None = opt("tensorboard, mlflow or wandb; repeatable."),
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Train one model; an interrupted run resumes with the same command."""
    from equipoise.benchmark import parse_choices, train_run

    given = drop_unset(
        {
            "steps": steps,
            "checkpoint_every": checkpoint_every,
            "augmentation": augmentation,
            "selections": tuple(select) if select else None,
            "precision": precision,
            "balance_features": None if balance_features is None else str(balance_features),
        }
    )
    chosen = parse_choices(choices or [])
    for name in sorted(given.keys() & chosen.keys()):
        raise ValueError(f"{name} is given twice, by --set and by an option of its own: drop one")
    check_options(dataset, data_dir, reading)
    result = train_run(
        output,
        dataset=dataset,
        algorithm=algorithm,
        test_environment=None if test_environment == "none" else test_environment,
        sampling=sampling,
        seed=seed,
        data_seed=data_seed,
        reading=reading,
        profile="quick" if quick else "domainbed",
        featurizer=featurizer,
        device=device,
        data_dir=data_dir,
        num_workers=num_workers,
        trackers=track or [],
        verbose=not quiet,
        **chosen,
        **given,
    )
    if os.environ.get("RANK", "0") != "0":
        return
    if as_json:
        print_json({name: asdict(record) for name, record in result.selected.items()})
    elif not quiet:
        _print_result(result, output)


def _print_result(result: RunResult, output: Path) -> None:
    table = Table(
        "selection", "step", "held-out", "balanced", "test environment", title=escape(str(output))
    )
    for name, record in result.selected.items():
        held_out = record.validation_accuracy, record.balanced_validation_accuracy
        accuracies = (*held_out, record.ood_accuracy)
        cells = ["–" if accuracy is None else f"{accuracy:.1%}" for accuracy in accuracies]
        table.add_row(name, str(record.step), *cells)
    Console().print(table)


@command
def predict(
    run: Path,
    examples: Path | None = opt(
        ".npy, .npz, .csv or .parquet, or a folder of .npy files.", flag="--input"
    ),
    key: str | None = opt("Which array of an .npz."),
    path: str | None = None,
    dataset: str | None = opt("A dataset by name, in place of files."),
    environment: str | None = opt("Only this environment of the dataset."),
    output: Path | None = opt(".csv, .parquet or .npz; by default CSV is printed."),
    selection: str | None = None,
    device: str = "cpu",
    data_dir: Path | None = None,
    data_seed: int = opt("Seed of the dataset.", 0),
    as_json: bool = False,
) -> None:
    """Predict labels with a trained model."""
    from equipoise import benchmark

    if (examples is None) == (dataset is None):
        raise ValueError("give either --input or --dataset")
    if path is not None and examples is None:
        raise ValueError("path says how to read --input: give the table there")
    if output is not None:
        benchmark.check_predictions(output)
    trained = benchmark.load_run(run, selection=selection, device=device)
    if examples is not None:
        with plain_notes(predict):
            found = benchmark.read_examples(
                examples,
                key,
                features=trained.feature_names,
                roles=trained.role_names,
                images=path,
                image_size=trained.input_shape[1:],
            )
    else:
        found = benchmark.read_dataset(
            str(dataset), environment, data_dir=data_dir, data_seed=data_seed
        )
    table = benchmark.predict_table(trained, found)
    if output is not None:
        benchmark.write_predictions(table, output)
    if as_json:
        print_json(table.to_dict("records"))
    elif output is None:
        typer.echo(table.to_csv(index=False), nl=False)


@command
def export(
    run: Path,
    output: Path = opt("The file: .onnx or .pt2.", ...),
    format: Form = opt("onnx for ONNX Runtime, torch for torch.export.load.", Form.onnx),
    selection: str | None = None,
) -> None:
    """Write the trained network with its labels as one file for other programs."""
    from equipoise.benchmark import export_run, load_run

    typer.echo(export_run(load_run(run, selection=selection), output, format=format.value))


@command
def sweep(
    spec: Path = arg("YAML file of the sweep; see docs/benchmark.md."),
    output: Path = opt("Directory of the runs; sweeps may share one.", Path("runs")),
    workers: int | None = opt(
        "Runs at the same time; 1 if not set; 0 trains in this process.", min=0
    ),
    ray: bool = opt("Distribute the runs with Ray.", False),
    ray_address: str | None = opt(
        "Address of a Ray cluster, or auto; a local one starts if not set."
    ),
    cpus_per_run: float = opt("CPUs that Ray reserves for a run.", 1.0),
    gpus_per_run: float = opt("GPUs that Ray reserves for a run.", 0.0),
    device: str = "cpu",
    data_dir: Path | None = None,
    dry_run: bool = opt("List the runs, train none.", False),
    as_json: bool = opt("Print the listed runs as JSON.", False, flag="--json"),
    quiet: bool = False,
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
    runs: Path = arg("Directory of runs or DomainBed logs, or a sweep's sweep-….json."),
    selection: list[str] | None = opt(
        "A rule of `equipoise list selections`; repeatable; all if not set."
    ),
    spread: Spread = opt(
        "Deviation over seeds, error of the mean, or DomainBed's.", Spread.deviation
    ),
    by: list[str] | None = opt(
        "A setting that gets rows of its own, e.g. degree_of_balancing; repeatable."
    ),
    where: list[str] | None = opt("Only runs with this setting, name=value; repeatable."),
    format: Format = opt("Format of the printed table.", Format.terminal),
    output: Path | None = opt("A file: .md, .tex or .csv; printed if not set."),
    as_json: bool = False,
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
    directory: Path = arg("A DomainBed sweep: a folder for each run."),
    selection: str = opt("train-domain, leave-one-domain-out or test-domain.", "train-domain"),
    output: Path | None = opt("Sweep file with the chosen hyperparameters, .yaml."),
    table: Path | None = opt("The table as .md, .tex or .csv."),
    spread: Spread = opt(
        "As DomainBed prints it, or deviation or error over seeds.", Spread.domainbed
    ),
    as_json: bool = False,
) -> None:
    """Read DomainBed's logs: their table, and the chosen hyperparameters as a sweep of ours."""
    from equipoise import benchmark
    from equipoise.files import write_whole

    runs = benchmark.read_domainbed(directory)
    selected = benchmark.select_runs(runs, [selection])
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
    text, left_out = benchmark.write_chosen(selected, runs)
    with write_whole(output) as temporary:
        temporary.write_text(text)
    if left_out:
        say(f"left out, since equipoise has no such setting: {', '.join(left_out)}", error=True)
    say(f"equipoise sweep {output} trains with what was chosen", error=True)
