"""Labels and environments as users give them: checked columns, and their codes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from equipoise.data.environments import EnvironmentDataset, EnvironmentSubset
from equipoise.data.row_numbers import tell_row
from equipoise.data.sources import Source, as_source


@dataclass(frozen=True)
class Columns:
    """Labels and environments as sorted values, and every example's positions among them."""

    classes: NDArray
    environments: NDArray
    label_codes: NDArray[np.int64]
    environment_codes: NDArray[np.int64]


def encode_columns(source: Source, y: ArrayLike, environments: ArrayLike) -> Columns:
    """Check both columns against the examples and give their codes."""
    labels, sites = check_column("y", y), check_column("environments", environments)
    check_aligned(source, labels, sites)
    if len(labels) == 0:
        raise ValueError("X is empty: there is nothing to learn from")
    classes, label_codes = np.unique(labels, return_inverse=True)
    known, site_codes = np.unique(sites, return_inverse=True)
    return Columns(classes, known, label_codes.astype(np.int64), site_codes.astype(np.int64))


def check_for_balancing(
    columns: Columns,
    label_names: Sequence[str] | None = None,
    environment_names: Sequence[str] | None = None,
) -> None:
    """Refuse labels and environments that cannot be told apart; warn where few can be.

    The names, where there are any, are what the values are called in messages.
    """
    labels = list(label_names or columns.classes.tolist())
    sites = list(environment_names or columns.environments.tolist())
    if len(labels) < 2:
        raise ValueError(
            f"balancing needs two labels or more, but every example has the label {labels[0]!r}"
        )
    if len(sites) < 2:
        raise ValueError(
            "Z can be told apart from the label only by its change between environments: two or "
            f"more are needed, but every example is of the environment {sites[0]!r}"
        )
    seen = np.zeros((len(columns.classes), len(columns.environments)), dtype=bool)
    seen[columns.label_codes, columns.environment_codes] = True
    if (seen.sum(axis=1) == 1).all():
        raise ValueError(
            "every label was seen in one environment only, so nothing tells label and "
            "environment apart; add environments that share labels"
        )
    if (seen.sum(axis=0) == 1).all():
        raise ValueError(
            "every environment has one label only, so no example has a match of another label; "
            "add environments that hold several"
        )
    lonely = [labels[code] for code in np.flatnonzero(seen.sum(axis=1) == 1)]
    if lonely:
        warnings.warn(
            f"labels seen in one environment only: {lonely}. They are matched there; anchors of "
            "other environments get no match of them",
            stacklevel=3,
        )


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


def find_feature_names(X: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns, or those that a dataset knows; None if there are none.

    >>> find_feature_names(pd.DataFrame({"age": [40], "weight": [70]}))
    ('age', 'weight')
    """
    names = X.columns if hasattr(X, "iloc") else getattr(X, "feature_names", None)
    if names is None and isinstance(X, EnvironmentSubset):
        return find_feature_names(X.parent)
    return None if names is None else tuple(str(name) for name in names)


def check_column(name: str, values: ArrayLike) -> NDArray:
    """One value for every example, none of them missing; objects become text."""
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {array.shape}")
    missing = np.flatnonzero(pd.isna(array))
    if len(missing):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{name} has missing values, first {tell_row(missing[0])}{more}: remove those rows, "
            "or fill in a name such as 'unknown'"
        )
    if array.dtype == object:
        array = np.asarray(pd.Series(array).infer_objects())
    if array.dtype.kind not in "biuf":
        return array.astype(str)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has infinite values: remove those rows")
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
