"""`equipoise predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli.errors import plain_errors


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
