"""What is compared between labels: covariates given and known, columns, z and its squares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import POOLED, Groups

Floats = NDArray[np.float64]

#: Products of z grow with the square of its size: of more dimensions than this, only these.
MAX_DIMENSIONS_OF_PRODUCTS = 16
#: A known covariate with at most this many values is taken for categories, not for a number.
MAX_CATEGORIES = 20
#: Below this a standardised mean difference is called balanced.
THRESHOLD = 0.1


@dataclass(frozen=True)
class Covariate:
    """One column [N] to compare; `kind` is given, known, feature, z, square, product or score."""

    name: str
    kind: str
    values: Floats


@dataclass(frozen=True)
class KnownCovariate:
    """A covariate of the user's: the code of every example [N] and what the codes are called.

    Of a number, `values` has the numbers and the codes are sixteenths of its range of ranks.
    """

    name: str
    codes: NDArray[np.int64]
    names: tuple[str, ...]
    values: Floats | None = None
    kind: str = "known"


def list_covariates(
    z: Floats,
    scores: Floats,
    known: list[KnownCovariate],
    columns: list[Covariate],
    label_names: tuple[str, ...],
) -> Iterator[Covariate]:
    """Every column to compare, one at a time; squares and products are of standardised z."""
    for covariate in known:
        yield from _spread_known(covariate)
    yield from columns
    coordinates = [(f"z{i + 1}", column) for i, column in enumerate(standardize(z).T)]
    for name, column in coordinates:
        yield Covariate(name, "z", column)
    for name, column in coordinates:
        yield Covariate(f"{name}²", "square", column**2)
    for (a, one), (b, other) in combinations(coordinates[:MAX_DIMENSIONS_OF_PRODUCTS], 2):
        yield Covariate(f"{a}·{b}", "product", one * other)
    for label, name in _indicate(label_names) if len(label_names) <= MAX_CATEGORIES else ():
        yield Covariate(f"score of {name}", "score", scores[:, label])


def _indicate(names: tuple[str, ...]) -> list[tuple[int, str]]:
    """Which categories get a column of their own: of two, the second says it all."""
    return list(enumerate(names))[len(names) == 2 :]


def standardize(z: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1; a constant one becomes 0."""
    deviation = z.std(axis=0)
    moved = z - z.mean(axis=0)
    return np.asarray(moved / np.where(deviation > 1e-12, deviation, np.inf))


def read_columns(columns: Mapping[str, Any] | None, n: int) -> list[Covariate]:
    """The columns of a table: numbers as they are, categories as one indicator for each."""
    found: list[Covariate] = []
    for name, given in (columns if columns is not None else {}).items():
        values = np.asarray(given)
        if values.dtype.kind in "fiub":
            numbers = values.astype(np.float64)
            known = np.isfinite(numbers)
            mean = numbers[known].mean() if known.any() else 0.0
            found.append(Covariate(str(name), "feature", np.where(known, numbers, mean)))
        else:
            words = {name: np.where(pd.isna(values), "(missing)", values.astype(str))}
            found += _spread_known(read_known(words, n, "feature")[0])
    return found


def read_known(
    known: Mapping[str, Any] | pd.DataFrame | None, n: int, kind: str = "known"
) -> list[KnownCovariate]:
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
                f"{kind} covariate {name!r} must have one value for each of the {n} examples, "
                f"got shape {np.shape(given)}"
            )
        if column.isna().any():
            if kind != "given":
                raise ValueError(
                    f"{kind} covariate {name!r} has missing values: name or remove them"
                )
            is_number = pd.api.types.is_numeric_dtype(column)
            column = column.fillna(column.mean() if is_number else "(missing)")
        found.append(replace(_code_known(str(name), column), kind=kind))
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
    """The bin of every value and the borders: a bin for each value, or about as many in each.

    >>> code_quantiles(np.array([0.0, 1.0, 2.0, 3.0]), 2)
    (array([0, 0, 1, 1]), array([0. , 1.5, 3. ]))
    >>> code_quantiles(np.array([0.0, 1.0, 1.0]))[0]
    array([0, 1, 1])
    """
    distinct = np.unique(values)
    if 1 < len(distinct) <= n_bins:
        cuts = np.array([distinct[0], *(distinct[1:] + distinct[:-1]) / 2, distinct[-1]])
    else:
        cuts = (
            np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1))) if len(values) else values
        )
    if len(cuts) < 2:
        return np.zeros(len(values), dtype=np.int64), np.repeat(cuts, 2)
    return np.searchsorted(cuts[1:-1], values, side="left").astype(np.int64), cuts


def _spread_known(known: KnownCovariate) -> Iterator[Covariate]:
    """A number as it is, categories as an indicator for each."""
    if known.values is not None:
        yield Covariate(known.name, known.kind, known.values)
        return
    for code, value in _indicate(known.names):
        same = (known.codes == code).astype(np.float64)
        yield Covariate(f"{known.name} = {value}", known.kind, same)


def cross_covariates(
    covariates: list[KnownCovariate], groups: Groups, weights: Floats
) -> pd.DataFrame:
    """Shares of a label's examples that have each value of a covariate.

    Columns: environment, covariate, label, value, before, after.

    >>> groups = Groups(np.array([0, 0, 1]), np.zeros(3, dtype=int), ("ant", "bee"), ("rome",))
    >>> (colour,) = read_known({"colour": ["red", "blue", "red"]}, 3)
    >>> cross_covariates([colour], groups, np.array([1.0, 3.0, 1.0])).head(2)
      environment covariate label value  before  after
    0        rome    colour   ant  blue     0.5   0.75
    1        rome    colour   ant   red     0.5   0.25
    """
    keys = ["environment", "covariate", "label", "value"]
    frames = []
    for covariate in covariates:
        chosen = covariate.codes == np.arange(len(covariate.names))[:, None]  # [values, N]
        table = {}
        for when, mass in (("before", np.ones(len(groups))), ("after", weights)):
            counts = np.stack([groups.total(mass * own) for own in chosen], axis=-1)
            with np.errstate(invalid="ignore"):
                shares = counts / counts.sum(axis=-1, keepdims=True)  # [E + 1, m, values]
            table[when] = shares.ravel()
        places = groups.places, [covariate.name], groups.label_names, covariate.names
        index = pd.MultiIndex.from_product(places, names=keys)
        frames.append(pd.DataFrame(table, index=index).dropna().reset_index())
    empty = pd.DataFrame(columns=[*keys, "before", "after"])
    return pd.concat(frames, ignore_index=True) if frames else empty


def choose_crossed(
    z: Floats, columns: list[Covariate], worst: pd.DataFrame, information: pd.DataFrame
) -> list[KnownCovariate]:
    """Where none is known: the column that was evened out most, else the z that predicts best."""
    evened = worst[(worst["kind"] == "feature") & (worst["environment"] == POOLED)]
    drop = (evened["mean_smd_before"] - evened["mean_smd_after"]).to_numpy()
    if len(drop) and drop.max() > THRESHOLD:
        name = str(evened["covariate"].iloc[int(np.argmax(drop))])
        return [_cut(name, next(each.values for each in columns if each.name == name))]
    if not z.shape[1]:
        return []
    told = information[information["kind"] == "coordinate"]
    told = told[told["environment"] == POOLED]["before"].to_numpy()
    place = int(np.argmax(told))
    return [_cut(f"z{place + 1}", standardize(z)[:, place])]


def _cut(name: str, values: Floats) -> KnownCovariate:
    points = np.unique(values)
    if len(points) <= 8:
        codes = np.searchsorted(points, values).astype(np.int64)
        return KnownCovariate(name, codes, tuple(f"{point:g}" for point in points))
    codes, cuts = code_quantiles(values, 8)
    return KnownCovariate(name, codes, tuple(f"{a:.2f} … {b:.2f}" for a, b in pairwise(cuts)))
