"""`equipoise train` and `equipoise predict`: one run, and what it predicts."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import (
    Choices,
    DataDir,
    Device,
    Files,
    Json,
    Quiet,
    check_options,
    command,
    drop_unset,
    opt,
    print_json,
)

if TYPE_CHECKING:
    from equipoise.benchmark import RunResult


Form = StrEnum("Form", ["onnx", "torch"])
Selection = Annotated[str | None, opt("Which checkpoint; by default 'balanced' if it was kept.")]


@command
def train(
    dataset: Annotated[
        str,
        opt(
            "A name of `equipoise list datasets`, or the path of a folder tree of images, of "
            "a .csv, .parquet or .npz file, or of what `equipoise data pack` wrote."
        ),
    ],
    algorithm: Annotated[str, opt("A name of `equipoise list algorithms`.")],
    test_environment: Annotated[
        str, opt("Environment left out of training: name, position, or none.")
    ],
    output: Annotated[Path, opt("Directory of the run; an interrupted run resumes there.")],
    reading: dict[str, Any],
    sampling: Annotated[str, opt("random, balanced, oracle or class-balanced.")] = "balanced",
    seed: Annotated[int, opt("Seed of weights, batches and the balancer.")] = 0,
    data_seed: Annotated[int, opt("Seed of the data and their held-out part.")] = 0,
    quick: Annotated[bool, opt("The quick recipe instead of DomainBed's.", "--quick")] = False,
    choices: Choices = None,
    steps: Annotated[int | None, opt("Number of training steps.")] = None,
    checkpoint_every: Annotated[int | None, opt("Training steps per evaluation.")] = None,
    featurizer: Annotated[
        str | None, opt("mnist-cnn, small-cnn, mlp, resnet18, resnet50 or auto.")
    ] = None,
    augmentation: Annotated[str | None, opt("none, shift, affine or photo.")] = None,
    balance_features: Annotated[
        Path | None,
        opt(
            "Fit the balancer on other features of the same examples, as `equipoise data "
            "features --statistics` writes them."
        ),
    ] = None,
    select: Annotated[
        list[str] | None, opt("Keep the best checkpoint by this rule; repeatable.")
    ] = None,
    precision: Annotated[str | None, opt("float32 or bf16.")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    num_workers: Annotated[int, opt("Processes that fetch examples ahead.", min=0, max=1024)] = 0,
    track: Annotated[list[str] | None, opt("tensorboard, mlflow or wandb; repeatable.")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
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
        accuracies = (
            record.validation_accuracy,
            record.balanced_validation_accuracy,
            record.ood_accuracy,
        )
        cells = ["–" if accuracy is None else f"{accuracy:.1%}" for accuracy in accuracies]
        table.add_row(name, str(record.step), *cells)
    Console().print(table)


@command
def predict(
    run: Annotated[Path, typer.Argument(help="Directory of a trained run.")],
    examples: Annotated[
        Path | None, opt(".npy, .npz, .csv or .parquet, or a folder of .npy files.", "--input")
    ] = None,
    key: Annotated[str | None, opt("Which array of an .npz.")] = None,
    path: Files = None,
    dataset: Annotated[str | None, opt("A dataset by name, in place of files.")] = None,
    environment: Annotated[str | None, opt("Only this environment of the dataset.")] = None,
    output: Annotated[
        Path | None, opt(".csv, .parquet or .npz; by default CSV is printed.")
    ] = None,
    selection: Selection = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    data_seed: Annotated[int, opt("Seed of the dataset.")] = 0,
    as_json: Json = False,
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
        found = benchmark.read_examples(
            examples,
            key,
            features=trained.feature_names,
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
    run: Annotated[Path, typer.Argument(help="Directory of a trained run.")],
    output: Annotated[Path, opt("The file: .onnx or .pt2.")],
    format: Annotated[Form, opt("onnx for ONNX Runtime, torch for torch.export.load.")] = Form.onnx,
    selection: Selection = None,
) -> None:
    """Write the trained network with its labels as one file for other programs."""
    from equipoise.benchmark import export_run, load_run

    typer.echo(export_run(load_run(run, selection=selection), output, format=format.value))
