"""What comes into matching: log-scores in memory or in a file, codes, and common support."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Scores
from equipoise.checks import check_count, check_memory, check_number, require, show
from equipoise.files import check_regular

#: float32 scores whose logits were in the hundreds are off by 1e-4; raw logits by far more.
NORMALISATION_TOLERANCE = 1e-3

#: More labels than these are a mistake, and would be fitted for minutes.
MOST_LABELS = 100_000
_ENTRIES_AT_ONCE = 1 << 18
_ROWS_AT_ONCE = 1 << 14


def as_array(values: Any) -> NDArray[Any]:
    """A numpy view of an array-like or a torch tensor, wherever the tensor lives."""
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu().numpy()
        return np.asarray(values)
    except Exception as error:  # ragged lists, sparse tensors, types that numpy does not have
        raise ValueError(f"{show(values)} cannot be read as an array: {error}") from error


def check_shape(scores: NDArray[Any]) -> None:
    if scores.ndim != 2 or scores.shape[0] == 0:
        raise ValueError(f"log_scores must have shape [N, m] with N > 0, got {scores.shape}")
    if scores.shape[1] < 2:
        raise ValueError(f"matching needs at least 2 labels, log_scores has {scores.shape[1]}")
    if scores.dtype.kind not in "fiu":
        raise TypeError(f"log_scores must be real numbers, got dtype {scores.dtype}")


def check_log_scores(log_scores: Any) -> NDArray[Any]:
    """Normalised log-probabilities [N, m], floating as they came; −inf is a probability of 0.

    >>> check_log_scores([[0.0, 1.0]])
    Traceback (most recent call last):
        ...
    ValueError: log_scores must be normalised: row 0 sums to 3.71828, not 1; apply log_softmax
    """
    scores = as_array(log_scores)
    check_shape(scores)
    step = max(1, _ENTRIES_AT_ONCE // scores.shape[1])
    for start in range(0, len(scores), step):
        part = np.asarray(scores[start : start + step], dtype=np.float64)
        with np.errstate(over="ignore"):
            prob = np.exp(part)
        check_rows(part, prob, np.arange(start, start + len(part)))
    return scores


def check_rows(part: FloatArray, prob: FloatArray, rows: IntArray) -> None:
    """Refuse log-scores that hold NaN or do not sum to one; `rows` are their numbers."""
    total = prob.sum(axis=1)
    good = np.abs(total - 1) <= NORMALISATION_TOLERANCE
    if good.all():
        return
    wrong = int(good.argmin())
    if np.isnan(part[wrong]).any():
        raise ValueError(f"log_scores has NaN in row {rows[wrong]}")
    raise ValueError(
        f"log_scores must be normalised: row {rows[wrong]} sums to {total[wrong]:g}, not 1; "
        "apply log_softmax"
    )


def check_codes(name: str, codes: Any, length: int) -> IntArray:
    array = as_array(codes)
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},) like log_scores, got {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integer codes, got dtype {array.dtype}; encode them first")
    return array.astype(np.int64)


def check_environments(environments: Any, length: int) -> IntArray:
    if environments is None:
        return np.zeros(length, dtype=np.int64)
    return check_codes("environments", environments, length)


def check_labels(labels: Any, length: int, n_labels: int) -> IntArray:
    """Label codes in 0 … m−1, at least two of them in use."""
    codes = check_codes("labels", labels, length)
    if not length:
        raise ValueError("labels are empty: give one for each example")
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= n_labels:
        wrong = low if low < 0 else high
        raise ValueError(
            f"labels must lie in 0…{n_labels - 1} (columns of log_scores), got {wrong}"
        )
    if low == high:
        raise ValueError(f"only label {low} occurs: there is nothing to match with")
    return codes


def count_labels(labels: Any, n_labels: int | None = None) -> tuple[IntArray, int]:
    """Label codes, and how many labels there are unless `n_labels` says so."""
    codes = as_array(labels)
    if codes.ndim != 1 or codes.dtype.kind not in "iu" or not len(codes):
        raise TypeError(
            f"labels must be integer codes, one for each example; got shape {codes.shape}, "
            f"dtype {codes.dtype}"
        )
    m = int(codes.max()) + 1
    if n_labels is not None:
        m = check_count("n_labels", n_labels, least=2, most=MOST_LABELS)
    check_memory(
        f"the scores of {m:,} labels", 16.0 * len(codes) * m, hint="encode labels as 0, 1, …"
    )
    return check_labels(codes, len(codes), m), m


def split_by(codes: IntArray, rows: IntArray) -> list[IntArray]:
    """The rows of each code, codes in order and rows as they come."""
    order = np.argsort(codes, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(codes[order])) + 1)


class ScoreSource:
    """Log-scores [N, m] of which any rows can be read, checked at once or as they are read."""

    def __init__(self, array: NDArray[Any], *, on_disk: bool = False, check: bool = False) -> None:
        check_shape(array)
        self._array = check_log_scores(array) if check else array
        self._checked, self.on_disk = check, on_disk
        self.shape = (len(array), array.shape[1])

    def read(self, rows: IntArray) -> Scores:
        with np.errstate(over="ignore"):
            scores = Scores.from_log(np.asarray(self._array[rows], dtype=np.float64))
        if not self._checked:
            check_rows(scores.log, scores.prob, rows)
        return scores


def open_scores(log_scores: Any, *, check: bool = True) -> ScoreSource:
    """A source of an array, tensor, memmap or .npy or .parquet file; files are checked as read."""
    if isinstance(log_scores, (str, Path)):
        return ScoreSource(_open_file(Path(log_scores)), on_disk=True)
    if isinstance(log_scores, np.memmap):
        return ScoreSource(log_scores, on_disk=True)
    return ScoreSource(as_array(log_scores), check=check)


def read_examples(
    source: ScoreSource,
    labels: Any,
    environments: Any,
    exact: Any,
    common_support: bool | float | str,
    generator: np.random.Generator | None,
) -> tuple[IntArray, IntArray, NDArray[np.bool_], IntArray]:
    """Labels, environments split by exact codes, who is within common support, and their order.

    Of equal candidates the earlier in order is taken; `generator` breaks ties at random.
    """
    n, m = source.shape
    codes = check_labels(labels, n, m)
    where = check_environments(environments, n)
    order = np.arange(n) if generator is None else generator.permutation(n)
    supported = np.ones(n, dtype=bool)
    least = check_support(common_support)
    if common_support:
        supported = find_support(source, codes, where, least)
    if exact is not None:
        _, first = np.unique(where, return_inverse=True)
        values, second = np.unique(check_codes("exact", exact, n), return_inverse=True)
        where = first * len(values) + second
    return codes, where, supported, order[supported[order]]


def _open_file(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise ValueError(f"log_scores: there is no file {str(path)!r}")
    if path.suffix == ".npy":
        try:
            return np.asanyarray(np.load(check_regular(path), mmap_mode="r"))
        except Exception as error:  # numpy's reader raises all kinds on damaged content
            raise ValueError(f"log_scores: {path} cannot be read: {show(error)}") from error
    if path.suffix in (".parquet", ".pq"):
        return _unpack_parquet(path)
    raise ValueError(f"log_scores: expected a .npy or .parquet file, got {path.name!r}")


def _unpack_parquet(path: Path) -> NDArray[Any]:
    """Parquet cannot be read by row, so its columns go to a nameless file of plain rows."""
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


def common_support(
    log_scores: Any, labels: Any, environments: Any = None, *, least: float | str | None = None
) -> NDArray[np.bool_]:
    """Which examples lie where every label of their environment has examples: [N].

    The min–max rule: for each label's score the supported range goes from the largest of the
    groups' minima to the smallest of their maxima; an example must be inside all of them. With
    `least`, every label that the environment has must have at least this probability instead
    (Crump and others, 2009, who advise 0.1 for two labels). "auto" computes their best limit:
    Σ 1 / p over the labels is at most twice its mean over what is kept (Yang and others, 2016).

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4], [0.3, 0.7]])
    >>> common_support(scores, [0, 0, 1, 1])
    array([False,  True,  True, False])
    >>> common_support(scores, [0, 0, 1, 1], least=0.2)
    array([False,  True,  True,  True])
    """
    source = open_scores(log_scores)
    codes = check_labels(labels, *source.shape)
    where = check_environments(environments, len(codes))
    return find_support(source, codes, where, check_support(least))


def check_support(rule: bool | float | str | None) -> float | None:
    """None for the min–max rule, the least probability of every label, or NaN for "auto"."""
    if rule is None or isinstance(rule, bool | np.bool_):
        return None
    if isinstance(rule, str) and rule == "auto":
        return math.nan
    rule = check_number("common_support", rule)
    if rule == 0:
        return None
    if not 0.0 < rule < 0.5:
        raise ValueError(
            "common_support must be True, False, 'auto' or a least probability between 0 and 0.5, "
            f"got {rule!r}: 0.1 is usual for two labels, less for more"
        )
    return float(rule)


def find_support(
    source: ScoreSource, labels: IntArray, environments: IntArray, least: float | None = None
) -> NDArray[np.bool_]:
    """The same over a source of scores, which is read in parts."""
    n, m = source.shape
    inside = np.zeros(n, dtype=bool)
    step = max(1, _ENTRIES_AT_ONCE // m)
    for environment in np.unique(environments):
        rows = np.flatnonzero(environments == environment)
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        if least is not None and math.isnan(least):
            inside[rows] = _keep_even(source, labels[rows], parts)
            continue
        if least is None:
            low, high = _range(source, labels, parts)
        else:
            low = np.full(m, -np.inf)
            low[np.unique(labels[rows])] = np.log(least)
            high = np.full(m, np.inf)
        for part in parts:
            log = source.read(part).log
            inside[part] = ((log >= low) & (log <= high)).all(axis=1)
    return inside


def _keep_even(source: ScoreSource, labels: IntArray, parts: list[IntArray]) -> NDArray[np.bool_]:
    """Where Σ 1 / p is at most twice its mean over what is kept; all where a label would vanish."""
    present = np.unique(labels)
    sums = [np.exp(-source.read(part).log[:, present]).sum(axis=1) for part in parts]
    uneven = np.concatenate(sums)
    order = np.sort(uneven)
    means = np.cumsum(order) / np.arange(1, len(order) + 1)
    kept = uneven <= order[np.flatnonzero(order <= 2 * means)[-1]]
    return np.asarray(kept | (len(np.unique(labels[kept])) < len(present)))


def _range(
    source: ScoreSource, labels: IntArray, parts: list[IntArray]
) -> tuple[FloatArray, FloatArray]:
    least: dict[int, FloatArray] = {}
    most: dict[int, FloatArray] = {}
    for part in parts:
        log = source.read(part).log
        for label in np.unique(labels[part]).tolist():
            group = log[labels[part] == label]
            least[label] = np.minimum(least.get(label, np.inf), group.min(axis=0))
            most[label] = np.maximum(most.get(label, -np.inf), group.max(axis=0))
    low: FloatArray = np.max(list(least.values()), axis=0)
    high: FloatArray = np.min(list(most.values()), axis=0)
    return low, high
