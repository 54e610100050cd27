"""Labels and environments as users give them: checked columns, and their codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.environments import EnvironmentDataset
from equipoise.data.sources import Source, as_source


def unpack_columns(
    X: Any, y: ArrayLike | None, environments: ArrayLike | None
) -> tuple[Source, ArrayLike, ArrayLike]:
    """Labels and environments as given, or those that a dataset of ours brings along."""
    if isinstance(X, EnvironmentDataset):
        y = X.labels if y is None else y
        environments = X.environments if environments is None else environments
    if y is None or environments is None:
        raise ValueError("y and environments are needed, unless X is an EnvironmentDataset")
    return as_source(X), y, environments


def check_column(name: str, values: ArrayLike) -> NDArray:
    """One value for every example, none of them missing; objects become text."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {array.shape}")
    if array.dtype == object:
        if any(value is None or value != value for value in array):
            raise ValueError(f"{name} has missing values: remove those rows or name them")
        array = array.astype(str)
    if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
        raise ValueError(f"{name} has missing or infinite values: remove those rows")
    return array


def find_codes(kind: str, values: NDArray, known: NDArray) -> NDArray[np.int64]:
    """Positions of values in the sorted `known` ones; an unknown value is a ValueError."""
    codes = np.searchsorted(known, values).clip(0, len(known) - 1)
    unknown = known[codes] != values
    if unknown.any():
        first = values[unknown].tolist()[0]
        raise ValueError(f"{kind} {first!r} was not seen when fitting; known: {known.tolist()}")
    return codes.astype(np.int64)


def check_aligned(source: Source, labels: NDArray, environments: NDArray) -> None:
    """Refuse columns whose lengths differ from the number of examples."""
    if not len(source) == len(labels) == len(environments):
        raise ValueError(
            f"X, y and environments must be aligned, but have {len(source)}, {len(labels)} "
            f"and {len(environments)} rows"
        )
