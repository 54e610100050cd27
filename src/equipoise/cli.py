"""The commands: parse, call, print."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from equipoise import __version__

if TYPE_CHECKING:
    from equipoise.benchmark import RunResult

app = typer.Typer(
    name="equipoise",
    help="Take the spurious correlation out of training batches.",
    epilog="Example: equipoise demo --quick",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake ends in one sentence and exit code 2, Ctrl-C in 130; no traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError, ImportError) as error:
            Console(stderr=True).print(
                f"error: {error}", style="red", markup=False, highlight=False
            )
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted; the same command goes on where it stopped")
            raise typer.Exit(130) from None

    return guarded


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Take the spurious correlation out of training batches."""


METRIC_MEANINGS = {
    "kl": "Kullback-Leibler divergence of the anchor's score from the candidate's",
    "l1": "sum of absolute differences of probabilities",
    "l2": "Euclidean distance of probabilities",
    "linf": "largest absolute difference of probabilities",
}


class Kind(StrEnum):
    datasets = "datasets"
    algorithms = "algorithms"
    metrics = "metrics"
    selections = "selections"


@app.command("list", epilog="Example: equipoise list algorithms --json")
@plain_errors
def list_names(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """List what can be named in other commands, with a line on each."""
    names = _names_of(kind)
    if as_json:
        typer.echo(json.dumps(names, indent=2))
        return
    table = Table("name", "what it is", title=kind.value)
    for name, meaning in names.items():
        table.add_row(name, meaning)
    Console().print(table)


def _names_of(kind: Kind) -> dict[str, str]:
    # Imported here: `equipoise --help` must not wait for torch.
    if kind is Kind.datasets:
        from equipoise.data import list_datasets

        return list_datasets()
    if kind is Kind.algorithms:
        from equipoise.algorithms import get_algorithm, list_algorithms

        return {name: _first_line(get_algorithm(name)) for name in list_algorithms()}
    if kind is Kind.metrics:
        return METRIC_MEANINGS
    from equipoise.benchmark import SELECTIONS

    return {name: _first_line(selection) for name, selection in SELECTIONS.items()}


@app.command(epilog="Example: equipoise demo --dataset ColoredMNIST --output demo-two-colours")
@plain_errors
def demo(
    dataset: Annotated[str, typer.Option(help="What to run it on.")] = "ColoredMNIST10",
    steps: Annotated[
        int | None, typer.Option(min=1, help="Training steps of each run; the recipe's if not set.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of model, batches and network.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A quarter of the steps.")] = False,
    output: Annotated[Path, typer.Option(help="Directory for pictures and results.json.")] = Path(
        "demo"
    ),
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the raw MNIST files lie; else EQUIPOISE_DATA.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, …")] = "cpu",
) -> None:
    """Watch balancing work: learn Z, match, train with random and with balanced batches."""
    from equipoise.demo import run_demo

    run_demo(
        output,
        dataset=dataset,
        steps=steps,
        seed=seed,
        quick=quick,
        data_dir=data_dir,
        device=device,
    )


def _first_line(thing: object) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


@app.command(
    epilog="Example: equipoise train --dataset ColoredMNIST10 --algorithm CORAL "
    "--sampling balanced --test-environment 2 --seed 0 --output runs/x --quick"
)
@plain_errors
def train(
    dataset: Annotated[str, typer.Option(help="A name of `equipoise list datasets`.")],
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
    choices: Annotated[
        list[str] | None,
        typer.Option("--set", help="A hyperparameter or setting, name=value; repeatable."),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Updates in all.")] = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="Updates per evaluation.")] = None,
    featurizer: Annotated[
        str | None, typer.Option(help="mnist-cnn, small-cnn, mlp, resnet18, resnet50 or auto.")
    ] = None,
    augmentation: Annotated[str | None, typer.Option(help="none, shift, affine, photo.")] = None,
    select: Annotated[
        list[str] | None, typer.Option(help="Keep the best by this rule; repeatable.")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="float32 or bf16.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    num_workers: Annotated[
        int, typer.Option(min=0, help="Processes that fetch examples ahead.")
    ] = 0,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no table.")] = False,
) -> None:
    """Train one model; interrupted anywhere, the same command goes on."""
    from equipoise.benchmark import train_run
    from equipoise.benchmark.parsing import parse_choices

    if quick and profile not in (None, "quick"):
        raise ValueError(f"--quick and --profile {profile} contradict each other: give one of them")
    given: dict[str, Any] = {
        "steps": steps,
        "checkpoint_every": checkpoint_every,
        "augmentation": augmentation,
        "selections": tuple(select) if select else None,
        "precision": precision,
    }
    given = {name: value for name, value in given.items() if value is not None}
    chosen = parse_choices(choices or [])
    for name in sorted(given.keys() & chosen.keys()):
        raise ValueError(f"{name} is given twice, by --set and by an option of its own: drop one")
    result = train_run(
        output,
        dataset=dataset,
        algorithm=algorithm,
        test_environment=None if test_environment == "none" else test_environment,
        sampling=sampling,
        seed=seed,
        data_seed=data_seed,
        profile="quick" if quick else profile or "domainbed",
        featurizer=featurizer,
        device=device,
        data_dir=data_dir,
        num_workers=num_workers,
        tensorboard=tensorboard,
        verbose=not quiet,
        **chosen,
        **given,
    )
    if not quiet and os.environ.get("RANK", "0") == "0":
        _print_result(result, output)


def _print_result(result: RunResult, output: Path) -> None:
    table = Table(
        "selection", "step", "held-out", "balanced", "test environment", title=str(output)
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


@app.command(epilog="Example: equipoise predict runs/x --input digits.npy --output labels.csv")
@plain_errors
def predict(
    run: Annotated[Path, typer.Argument(help="Directory of a trained run.")],
    examples: Annotated[
        Path | None,
        typer.Option("--input", help=".npy, .npz, .csv or .parquet, or a folder of .npy files."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz.")] = None,
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
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(help="Where the data files are.")] = None,
    data_seed: Annotated[int, typer.Option(help="Of the dataset.")] = 0,
) -> None:
    """Predict labels with a trained model."""
    from equipoise.benchmark import load_run
    from equipoise.benchmark.predictions import (
        check_output,
        predict_table,
        read_dataset,
        read_examples,
        write_predictions,
    )

    if (examples is None) == (dataset is None):
        raise ValueError("give either --input or --dataset")
    if output is not None:
        check_output(output)
    trained = load_run(run, selection=selection, device=device)
    if examples is not None:
        found = read_examples(examples, key)
    else:
        found = read_dataset(str(dataset), environment, data_dir=data_dir, data_seed=data_seed)
    table = predict_table(trained, found)
    if output is None:
        typer.echo(table.to_csv(index=False), nl=False)
    else:
        write_predictions(table, output)


def main() -> None:
    """Entry point of the `equipoise` command."""
    app(prog_name="equipoise")


if __name__ == "__main__":
    main()
