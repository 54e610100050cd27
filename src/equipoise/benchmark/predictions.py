"""Examples from files, and predictions into files."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.benchmark.run_data import find_environment
from equipoise.benchmark.trained_run import TrainedRun
from equipoise.choices import check_choice
from equipoise.data import get_dataset
from equipoise.files import write_whole

INPUTS = (".npy", ".npz", ".csv", ".parquet")
OUTPUTS = (".csv", ".parquet", ".npz")


@dataclass(frozen=True)
class Examples:
    """Examples, anything that `TrainedRun.predict` takes, and what to call each."""

    x: Any
    names: list[str]


def read_examples(path: str | Path, key: str | None = None) -> Examples:
    """Read examples from an .npy, .npz, .csv or .parquet file, or a folder of .npy files.

    An .npz may hold several arrays: `key` says which, by default "x" or the only one. A table
    holds an example in each row; in a folder each file is one example, in order of names.
    """
    path = Path(path)
    if not path.exists():
        raise ValueError(f"there is no input {path}")
    if path.is_dir():
        return _read_folder(path)
    check_choice("kind of input", path.suffix, INPUTS)
    x = _read(path, key)
    if x.ndim == 0:
        raise ValueError(f"{path} holds a single value; expected an array of examples, [N, …]")
    return Examples(x, [str(row) for row in range(len(x))])


def read_dataset(
    name: str,
    environment: str | None = None,
    *,
    data_dir: str | Path | None = None,
    data_seed: int = 0,
) -> Examples:
    """All examples of a registered dataset, or those of one environment."""
    dataset = get_dataset(name, data_dir=data_dir, data_seed=data_seed)
    rows = np.arange(len(dataset))
    if environment is not None:
        rows = np.flatnonzero(dataset.environments == find_environment(dataset, environment))
    return Examples(dataset.subset(rows), [str(row) for row in rows])


def predict_table(run: TrainedRun, examples: Examples) -> pd.DataFrame:
    """A row for each example: its name, the predicted label, and every label's probability."""
    probabilities = run.predict_proba(examples.x)
    best = probabilities.argmax(axis=1)
    table = {
        "example": examples.names,
        "label": np.asarray(run.label_names)[best],
        "probability": probabilities.max(axis=1),
    }
    table |= {f"p({name})": probabilities[:, i] for i, name in enumerate(run.label_names)}
    return pd.DataFrame(table)


def check_output(path: str | Path) -> None:
    """Refuse a file that `write_predictions` could not write."""
    path = Path(path)
    check_choice("kind of output", path.suffix, OUTPUTS)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file for the predictions")


def write_predictions(table: pd.DataFrame, path: str | Path) -> None:
    """Write a table of predictions whole, as .csv, .parquet or .npz by the name's ending."""
    path = Path(path)
    check_output(path)
    with write_whole(path) as temporary:
        if path.suffix == ".csv":
            table.to_csv(temporary, index=False)
        elif path.suffix == ".parquet":
            table.to_parquet(temporary, index=False)
        else:
            temporary.write_bytes(_pack(table))


def _pack(table: pd.DataFrame) -> bytes:
    content = io.BytesIO()
    columns = [name for name in table.columns if name.startswith("p(")]
    np.savez(
        content,
        example=table["example"].to_numpy(dtype=str),
        label=table["label"].to_numpy(dtype=str),
        probabilities=table[columns].to_numpy(),
    )
    return content.getvalue()


def _read(path: Path, key: str | None = None) -> NDArray[Any]:
    try:
        return _read_file(path, key)
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _read_file(path: Path, key: str | None) -> NDArray[Any]:
    if path.suffix == ".npy":
        return np.asarray(np.load(path))
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            return np.asarray(arrays[_choose_key(list(arrays), key)])
    if path.suffix == ".csv":
        _check_header(path)
    table = pd.read_csv(path) if path.suffix == ".csv" else pd.read_parquet(path)
    return np.asarray(table.to_numpy(dtype=np.float32))


def _check_header(path: Path) -> None:
    """Refuse a table without names: its first example would be taken for them.

    Names that only count the columns, as pandas gives them, are names.
    """
    first = pd.read_csv(path, header=None, nrows=1).iloc[0].tolist()
    numbers = all(isinstance(value, int | float) for value in first)
    if numbers and first != list(range(len(first))):
        raise ValueError(
            f"its first row must name the columns, but holds the numbers {first[:3]} …; add a row "
            "of names (and leave out a column that only counts the rows)"
        )


def _choose_key(names: list[str], key: str | None) -> str:
    if key is not None:
        return check_choice("array", key, names)
    if len(names) == 1:
        return names[0]
    for name in ("x", "X"):
        if name in names:
            return name
    raise ValueError(f"it holds the arrays {', '.join(names)}; say which with key")


def _read_folder(path: Path) -> Examples:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise ValueError(f"the folder {path} has no .npy files; each should hold one example")
    rows = [_read(file) for file in files]
    shapes = {row.shape for row in rows}
    if len(shapes) > 1:
        raise ValueError(f"the examples in {path} differ in shape: {sorted(shapes)}")
    return Examples(np.stack(rows), [file.name for file in files])
