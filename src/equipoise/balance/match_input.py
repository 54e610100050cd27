"""What comes into matching, checked: log-scores, labels and environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: float32 scores whose logits were in the hundreds are off by 1e-4; raw logits by far more.
NORMALISATION_TOLERANCE = 1e-3

_ENTRIES_AT_ONCE = 1 << 18


def as_array(values: Any) -> NDArray[Any]:
    """A numpy view of an array-like or a torch tensor, wherever the tensor lives."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def check_shape(scores: NDArray[Any]) -> None:
    """Two axes, at least one example, at least two labels, real numbers."""
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
    """Integer codes, one for each example."""
    array = as_array(codes)
    if array.shape != (length,):
        raise ValueError(f"{name} must have shape ({length},) like log_scores, got {array.shape}")
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"{name} must be integer codes, got dtype {array.dtype}; encode them first")
    return array.astype(np.int64)


def check_labels(labels: Any, length: int, n_labels: int) -> IntArray:
    """Label codes in 0 … m−1, at least two of them in use."""
    codes = check_codes("labels", labels, length)
    low, high = int(codes.min()), int(codes.max())
    if low < 0 or high >= n_labels:
        wrong = low if low < 0 else high
        raise ValueError(
            f"labels must lie in 0…{n_labels - 1} (columns of log_scores), got {wrong}"
        )
    if low == high:
        raise ValueError(f"only label {low} occurs: there is nothing to match with")
    return codes


def check_count(name: str, value: int) -> None:
    """A whole number of at least one."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def refine(environments: IntArray, exact: Any) -> IntArray:
    """Codes of environments, split further by codes that matches must share exactly."""
    if exact is None:
        return environments
    codes = check_codes("exact", exact, len(environments))
    _, first = np.unique(environments, return_inverse=True)
    values, second = np.unique(codes, return_inverse=True)
    return np.asarray(first * len(values) + second)


def split_by(codes: IntArray, rows: IntArray) -> list[IntArray]:
    """The rows of each code, codes in order and rows as they come."""
    order = np.argsort(codes, kind="stable")
    cuts = np.flatnonzero(np.diff(codes[order])) + 1
    return np.split(rows[order], cuts)
