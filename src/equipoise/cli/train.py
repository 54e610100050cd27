"""`equipoise train` and `equipoise predict`: one run, and what it predicts."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.errors import plain_errors
from equipoise.cli.options import (
    Choices,
    DataDir,
    Device,
    Environment,
    Features,
    Files,
    ImageSize,
    Json,
    Label,
    Quiet,
    check_options,
    collect_options,
    print_json,
)

if TYPE_CHECKING:
    from equipoise.benchmark import RunResult


@plain_errors
def train(
    dataset: Annotated[
        str,
        typer.Option(
            help="A name of `equipoise list datasets`, or the path of a folder tree of images, of "
            "a .csv, .parquet or .npz file, or of what `equipoise data pack` wrote."
        ),
    ],
    algorithm: Annotated[str, typer.Option(help="A name of `equipoise list algorithms`.")],
    test_environment: Annotated[
        str, typer.Option(help="Left out of training: name or position; 'none' trains on all.")
    ],
    output: Annotated[Path, typer.Option(help="Directory of the run; a begun one goes on.")],
    sampling: Annotated[
        str, typer.Option(help="random, balanced, oracle or class-balanced.")
    ] = "balanced",
    seed: Annotated[int, typer.Option(help="Of weights, batches and the balancer.")] = 0,
    data_seed: Annotated[int, typer.Option(help="Of the data and their held-out part.")] = 0,
    profile: Annotated[
        str | None, typer.Option(help="The recipe: domainbed (if not set) or quick.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Short for --profile quick.")] = False,
    choices: Choices = None,
    steps: Annotated[int | None, typer.Option(help="Updates in all.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Updates per evaluation.")] = None,
    featurizer: Annotated[
        str | None, typer.Option(help="mnist-cnn, small-cnn, mlp, resnet18, resnet50 or auto.")
    ] = None,
    augmentation: Annotated[str | None, typer.Option(help="none, shift, affine, photo.")] = None,
    path: Files = None,
    label: Label = None,
    environment: Environment = None,
    features: Features = None,
    image_size: ImageSize = None,
    balance_features: Annotated[
        Path | None,
        typer.Option(
            help="Fit the balancer on other features of the same examples, as `equipoise data "
            "features --statistics` writes them."
        ),
    ] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Keep the best by this rule; repeatable.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bf16.")] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    num_workers: Annotated[
        int, typer.Option(min=0, max=1024, help="Processes that fetch examples ahead.")
    ] = 0,
    track: Annotated[
        list[str] | None, typer.Option(help="tensorboard, mlflow or wandb; repeatable.")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="The same as --track tensorboard.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train one model; interrupted anywhere, the same command goes on."""
    from equipoise.benchmark import parse_choices, train_run

    if quick and profile not in (None, "quick"):
        raise ValueError(f"--quick and --profile {profile} contradict each other: give one of them")
    given: dict[str, Any] = {
        "steps": steps,
        "checkpoint_every": checkpoint_every,
        "augmentation": augmentation,
        "selections": tuple(select) if select else None,
        "precision": precision,
        "balance_features": None if balance_features is None else str(balance_features),
    }
    given = {name: value for name, value in given.items() if value is not None}
    chosen = parse_choices(choices or [])
    for name in sorted(given.keys() & chosen.keys()):
        raise ValueError(f"{name} is given twice, by --set and by an option of its own: drop one")
    reading = collect_options(
        path=path, label=label, environment=environment, features=features, image_size=image_size
    )
    check_options(dataset, data_dir, reading)
    run = partial(
        train_run,
        output,
        dataset=dataset,
        algorithm=algorithm,
        test_environment=None if test_environment == "none" else test_environment,
        sampling=sampling,
        seed=seed,
        data_seed=data_seed,
        reading=reading,
        profile="quick" if quick else profile or "domainbed",
        featurizer=featurizer,
        device=device,
        data_dir=data_dir,
        num_workers=num_workers,
        trackers=[*(track or []), *(["tensorboard"] if tensorboard else [])],
        verbose=not quiet,
        **chosen,
        **given,
    )
    result = run()
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


@plain_errors
def predict(
    run: Annotated[Path, typer.Argument(help="Directory of a trained run.")],
    examples: Annotated[
        Path | None,
        typer.Option("--input", help=".npy, .npz, .csv or .parquet, or a folder of .npy files."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz.")] = None,
    path: Files = None,
    dataset: Annotated[
        str | None, typer.Option(help="A dataset by name, in place of files.")
    ] = None,
    environment: Annotated[str | None, typer.Option(help="Only this one of the dataset.")] = None,
    output: Annotated[
        Path | None, typer.Option(help=".csv, .parquet or .npz; by default CSV is printed.")
    ] = None,
    selection: Annotated[
        str | None, typer.Option(help="Which checkpoint; by default 'balanced' if it was kept.")
    ] = None,
    device: Device = "cpu",
    data_dir: DataDir = None,
    data_seed: Annotated[int, typer.Option(help="Of the dataset.")] = 0,
    as_json: Json = False,
) -> None:
    """Predict labels with a trained model."""
    from equipoise.benchmark import (
        check_predictions,
        load_run,
        predict_table,
        read_dataset,
        read_examples,
        write_predictions,
    )

    if (examples is None) == (dataset is None):
        raise ValueError("give either --input or --dataset")
    if path is not None and examples is None:
        raise ValueError("path says how to read --input: give the table there")
    if output is not None:
        check_predictions(output)
    trained = load_run(run, selection=selection, device=device)
    if examples is not None:
        found = read_examples(
            examples,
            key,
            features=trained.feature_names,
            images=path,
            image_size=trained.input_shape[1:],
        )
    else:
        found = read_dataset(str(dataset), environment, data_dir=data_dir, data_seed=data_seed)
    table = predict_table(trained, found)
    if output is not None:
        write_predictions(table, output)
    if as_json:
        print_json(table.to_dict("records"))
    elif output is None:
        typer.echo(table.to_csv(index=False), nl=False)


class Form(StrEnum):
    onnx = "onnx"
    torch = "torch"


@plain_errors
def export(
    run: Annotated[Path, typer.Argument(help="Directory of a trained run.")],
    output: Annotated[Path, typer.Option(help="The file: .onnx or .pt2.")],
    format: Annotated[
        Form, typer.Option(help="onnx for ONNX Runtime, torch for torch.export.load.")
    ] = Form.onnx,
    selection: Annotated[
        str | None, typer.Option(help="Which checkpoint; by default 'balanced' if it was kept.")
    ] = None,
) -> None:
    """Write the trained network with its labels as one file for other programs."""
    from equipoise.benchmark import export_run, load_run

    typer.echo(export_run(load_run(run, selection=selection), output, format=format.value))
