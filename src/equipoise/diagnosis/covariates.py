"""What is compared between labels: known covariates, features, z with squares and products."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Products of z grow with the square of its size: of more dimensions than this, only these.
MAX_DIMENSIONS_OF_PRODUCTS = 16
#: A known covariate with at most this many values is taken for categories, not for a number.
MAX_CATEGORIES = 20


@dataclass(frozen=True)
class Covariate:
    """One column [N] to compare: its name, its kind and its values.

    `kind` is "known", "feature", "z", "square", "product" or "score".
    """

    name: str
    kind: str
    values: Floats


@dataclass(frozen=True)
class KnownCovariate:
    """A covariate the user knows: the code of every example [N] and what the codes are called.

    `values` are the numbers themselves where it is a number, and then the codes are sixteenths
    of its range of ranks.
    """

    name: str
    codes: NDArray[np.int64]
    names: tuple[str, ...]
    values: Floats | None = None


def list_covariates(
    z: Floats,
    scores: Floats,
    known: list[KnownCovariate],
    features: Mapping[str, Floats],
    label_names: tuple[str, ...],
) -> Iterator[Covariate]:
    """Every column to compare, one at a time: there may be hundreds.

    z is brought to mean 0 and deviation 1 first, so that a square is about spread and a product
    about correlation, neither of them about the mean once more.
    """
    for covariate in known:
        yield from _spread_known(covariate)
    for name, values in features.items():
        yield Covariate(name, "feature", values)
    scaled = standardize(z)
    n = scaled.shape[1]
    for i in range(n):
        yield Covariate(f"z{i + 1}", "z", scaled[:, i])
    for i in range(n):
        yield Covariate(f"z{i + 1}²", "square", scaled[:, i] ** 2)
    for i in range(min(n, MAX_DIMENSIONS_OF_PRODUCTS)):
        for j in range(i + 1, min(n, MAX_DIMENSIONS_OF_PRODUCTS)):
            yield Covariate(f"z{i + 1}·z{j + 1}", "product", scaled[:, i] * scaled[:, j])
    for label, name in enumerate(label_names if len(label_names) <= MAX_CATEGORIES else ()):
        if not (len(label_names) == 2 and label == 0):  # of two, the second says it all
            yield Covariate(f"score of {name}", "score", scores[:, label])


def standardize(z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; a constant one becomes 0."""
    deviation = z.std(axis=0)
    moved = z - z.mean(axis=0)
    return np.asarray(moved / np.where(deviation > 1e-12, deviation, np.inf))


def read_known(known: Mapping[str, Any] | pd.DataFrame | None, n: int) -> list[KnownCovariate]:
    """Check what the user knows of the examples, and code it.

    >>> (colour,) = read_known({"colour": ["red", "blue", "red"]}, 3)
    >>> colour.names, colour.codes
    (('blue', 'red'), array([1, 0, 1]))
    """
    found = []
    for name, given in (known if known is not None else {}).items():
        column = pd.Series(np.asarray(given)) if np.ndim(given) == 1 else None
        if column is None or len(column) != n:
            raise ValueError(
                f"known covariate {name!r} must have one value for each of the {n} examples, "
                f"got shape {np.shape(given)}"
            )
        if column.isna().any():
            raise ValueError(f"known covariate {name!r} has missing values: name or remove them")
        found.append(_code_known(str(name), column))
    return found


def _code_known(name: str, column: pd.Series) -> KnownCovariate:
    is_number = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    if is_number and column.nunique() > MAX_CATEGORIES:
        values = column.to_numpy(dtype=np.float64)
        codes, cuts = code_quantiles(values)
        names = tuple(f"{low:.3g} … {high:.3g}" for low, high in pairwise(cuts))
        return KnownCovariate(name, codes, names, values)
    if column.nunique() > MAX_CATEGORIES:
        common = column.value_counts().index[: MAX_CATEGORIES - 1]
        column = column.where(column.isin(common), "(other)")
    codes, names = pd.factorize(column.astype(str) if not is_number else column, sort=True)
    return KnownCovariate(name, codes.astype(np.int64), tuple(str(value) for value in names))


def code_quantiles(values: Floats, n_bins: int = 16) -> tuple[NDArray[np.int64], Floats]:
    """The bin of every value and the borders, with about as many examples in every bin.

    >>> code_quantiles(np.array([0.0, 1.0, 2.0, 3.0]), 2)
    (array([0, 0, 1, 1]), array([0. , 1.5, 3. ]))
    """
    cuts = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)))
    if len(cuts) < 2:
        return np.zeros(len(values), dtype=np.int64), np.repeat(cuts, 2)
    return np.searchsorted(cuts[1:-1], values, side="left").astype(np.int64), cuts


def _spread_known(known: KnownCovariate) -> Iterator[Covariate]:
    """A number as it is, categories as one indicator for each (of two, the second says it all)."""
    if known.values is not None:
        yield Covariate(known.name, "known", known.values)
        return
    for code, value in enumerate(known.names):
        if not (len(known.names) == 2 and code == 0):
            yield Covariate(f"{known.name} = {value}", "known", (known.codes == code).astype(float))
