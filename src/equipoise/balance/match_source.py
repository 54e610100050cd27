"""Where log-scores come from: an array in memory, or a file that is read in parts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import IntArray, Scores
from equipoise.balance.match_input import as_array, check_log_scores, check_rows, check_shape
from equipoise.checks import require

_ROWS_AT_ONCE = 1 << 14


class ScoreSource(Protocol):
    """Log-scores [N, m] of which any rows can be read."""

    shape: tuple[int, int]
    on_disk: bool

    def read(self, rows: IntArray) -> Scores: ...


def open_scores(log_scores: Any, *, check: bool = True) -> ScoreSource:
    """Make a source of an array, a tensor, a `np.memmap`, or the path of an .npy or .parquet file.

    Files are checked as they are read, arrays at once; without `check` they too when read.

    >>> open_scores(np.log([[0.5, 0.5]])).shape
    (1, 2)
    """
    if isinstance(log_scores, (str, Path)):
        return CheckedRows(_open_file(Path(log_scores)), on_disk=True)
    if isinstance(log_scores, np.memmap):
        return CheckedRows(log_scores, on_disk=True)
    if check:
        return ArrayScores(log_scores)
    return CheckedRows(as_array(log_scores), on_disk=False)


class ArrayScores:
    """Log-scores in memory, checked at once."""

    on_disk = False

    def __init__(self, log_scores: Any) -> None:
        self._log = check_log_scores(log_scores)
        self.shape = (len(self._log), self._log.shape[1])

    def read(self, rows: IntArray) -> Scores:
        return Scores.from_log(np.asarray(self._log[rows], dtype=np.float64))


class CheckedRows:
    """Log-scores, checked as they are read: in a file, or where all is read at once anyway."""

    def __init__(self, array: NDArray[Any], *, on_disk: bool) -> None:
        check_shape(array)
        self._array = array
        self.on_disk = on_disk
        self.shape = (len(array), array.shape[1])

    def read(self, rows: IntArray) -> Scores:
        with np.errstate(over="ignore"):
            scores = Scores.from_log(np.asarray(self._array[rows], dtype=np.float64))
        check_rows(scores.log, scores.prob, rows)
        return scores


def _open_file(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise ValueError(f"log_scores: there is no file {str(path)!r}")
    if path.suffix == ".npy":
        return np.asanyarray(np.load(path, mmap_mode="r"))
    if path.suffix in (".parquet", ".pq"):
        return _unpack_parquet(path)
    raise ValueError(f"log_scores: expected a .npy or .parquet file, got {path.name!r}")


def _unpack_parquet(path: Path) -> NDArray[Any]:
    """Parquet cannot be read by row, so its columns go to a nameless file of plain rows.

    One column for each label, in order; the file vanishes with the array.
    """
    file = require("pyarrow.parquet", extra="tables").ParquetFile(path)
    shape = (file.metadata.num_rows, len(file.schema_arrow.names))
    if 0 in shape:
        raise ValueError(f"log_scores: {path.name!r} has {shape[0]} rows and {shape[1]} columns")
    with tempfile.TemporaryFile() as rows:
        array = np.memmap(rows, dtype=np.float64, mode="w+", shape=shape)
    start = 0
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
        for label, column in enumerate(batch.columns):
            values = column.to_numpy(zero_copy_only=False)
            array[start : start + len(values), label] = values
        start += batch.num_rows
    return array
