"""Before and after: standardised mean differences, variance ratios and KS for all label pairs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import Groups
from equipoise.diagnosis.covariates import Covariate

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Among more label pairs than this, those are kept that differ most.
MAX_PAIRS = 1000
#: Distribution functions are compared at this many of the covariate's quantiles.
KS_POINTS = 1024
#: Below this a standardised mean difference is called balanced.
THRESHOLD = 0.1


def tabulate_balance(
    covariates: Iterable[Covariate],
    groups: Groups,
    weights: Floats,
    pairs: tuple[Ints, Ints] | None = None,
) -> pd.DataFrame:
    """A row for each environment (and all pooled), covariate and pair of labels.

    Columns: environment, kind, covariate, first, second, and `smd`, `variance_ratio` and `ks`,
    each `_before` and `_after`. "Before" counts every example once, "after" by `weights`.
    The denominator of a mean difference is the root of the labels' mean variance in the
    *unmatched* data of that environment, before and after alike: what matching does to the
    spread cannot pass for balance. A variance ratio is the larger over the smaller. Squares and
    products have mean differences only. `pairs` are first and second labels, by default all.

    >>> groups = Groups(np.array([0, 0, 1, 1]), np.zeros(4, dtype=int), ("ant", "bee"), ("rome",))
    >>> size = Covariate("size", "known", np.array([1.0, 3.0, 3.0, 5.0]))
    >>> table = tabulate_balance([size], groups, np.array([1.0, 3.0, 3.0, 1.0]))
    >>> table.loc[0, ["smd_before", "smd_after", "ks_before"]].tolist()
    [2.0, 1.0, 0.5]
    """
    first, second = groups.pairs() if pairs is None else pairs
    parts = [_compare(covariate, groups, weights, first, second) for covariate in covariates]
    if not parts:
        raise ValueError("there is no covariate to compare")
    table = pd.concat(parts, ignore_index=True)
    names = pd.Index(groups.label_names)
    places = pd.Index(groups.places)
    for column, categories in (("environment", places), ("first", names), ("second", names)):
        table[column] = pd.Categorical.from_codes(table[column], categories=categories)
    for column in ("kind", "covariate"):
        table[column] = pd.Categorical(table[column], categories=table[column].unique())
    return table


def _compare(
    covariate: Covariate, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> pd.DataFrame:
    before = groups.moments(covariate.values, np.ones(len(groups)))
    after = groups.moments(covariate.values, weights)
    scale = unmatched_deviation(covariate.values, before[1])  # [E + 1]
    n_places = len(scale)
    smd = [np.abs(mean[:, first] - mean[:, second]) / scale[:, None] for mean, _ in (before, after)]
    columns: dict[str, NDArray] = {
        "environment": np.repeat(np.arange(n_places), len(first)),
        "first": np.tile(first, n_places),
        "second": np.tile(second, n_places),
        "smd_before": smd[0].ravel(),
        "smd_after": smd[1].ravel(),
    }
    if covariate.kind in ("square", "product"):
        nothing = np.full(smd[0].size, np.nan)
        rest = dict.fromkeys(_SHAPE_COLUMNS, nothing)
    else:
        ratios = [
            _ratio(variance[:, first], variance[:, second]) for _, variance in (before, after)
        ]
        ks = compare_distributions(covariate.values, groups, weights, first, second)
        rest = {
            "variance_ratio_before": ratios[0].ravel(),
            "variance_ratio_after": ratios[1].ravel(),
            "ks_before": ks[0].ravel(),
            "ks_after": ks[1].ravel(),
        }
    table = pd.DataFrame(columns | rest)
    table.insert(1, "kind", covariate.kind)
    table.insert(2, "covariate", covariate.name)
    return table[table["smd_before"].notna()]


_SHAPE_COLUMNS = ("variance_ratio_before", "variance_ratio_after", "ks_before", "ks_after")


def unmatched_deviation(values: Floats, variance: Floats) -> Floats:
    """The denominators [E + 1]: root of the labels' mean variance, from the unmatched data.

    Where nothing varies within a label the deviation of all examples stands in, so that labels
    that differ do not look alike; where nothing varies at all, 1.
    """
    present = ~np.isnan(variance)
    total = np.where(present, variance, 0.0).sum(axis=1)
    pooled = np.sqrt(total / np.maximum(present.sum(axis=1), 1))
    overall = values.std()
    fallback = overall if overall > 1e-12 else 1.0
    return np.where(pooled > 1e-9 * fallback, pooled, fallback)


def _ratio(first: Floats, second: Floats) -> Floats:
    """The larger variance over the smaller; two of zero are alike."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((high == 0) & (low == 0), 1.0, high / low)


def compare_distributions(
    values: Floats, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> tuple[Floats, Floats]:
    """Largest gap between two labels' distribution functions, before and after [E + 1, pairs].

    The functions are compared at up to 1,024 quantiles of the covariate, exactly where it has
    no more values than that.
    """
    n_environments, n_labels = groups.shape
    points = np.unique(values)
    if len(points) > KS_POINTS:
        points = np.unique(np.quantile(points, np.linspace(0, 1, KS_POINTS), method="nearest"))
    bins = np.searchsorted(points, values, side="left")  # values ≤ points[bin]
    cells = groups.codes * len(points) + bins
    size = n_environments * n_labels * len(points)
    gaps = []
    for mass in (np.ones(len(groups)), weights):
        counts = np.bincount(cells, weights=mass, minlength=size)
        counts = counts.reshape(n_environments, n_labels, len(points))
        counts = np.concatenate([counts, counts.sum(axis=0, keepdims=True)])
        with np.errstate(invalid="ignore"):
            function = counts.cumsum(axis=2) / counts.sum(axis=2, keepdims=True)
        gap = np.empty((n_environments + 1, len(first)))
        for place, of_labels in enumerate(function):
            gap[place] = np.abs(of_labels[first] - of_labels[second]).max(axis=1)
        gaps.append(gap)
    return gaps[0], gaps[1]


def find_worst_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """The pair of labels that differs most, for each environment and covariate, before and after.

    One row for each: `smd_before` with the pair it belongs to, `smd_after` with its own, the mean
    over all pairs, and the largest variance ratio and KS.
    """
    keys = ["environment", "kind", "covariate"]
    grouped = table.groupby(keys, observed=True, sort=False)
    worst = grouped[["smd_before", "smd_after", *_SHAPE_COLUMNS]].max()
    means = grouped[["smd_before", "smd_after"]].mean().add_prefix("mean_")
    for when in ("before", "after"):
        # Where trimming left nothing, no pair differs; the first then stands for all.
        sizes = table.assign(_size=table[f"smd_{when}"].fillna(-1.0))
        rows = table.loc[sizes.groupby(keys, observed=True, sort=False)["_size"].idxmax()]
        names = rows["first"].astype(str) + " – " + rows["second"].astype(str)
        worst[f"pair_{when}"] = names.to_numpy()
    return worst.join(means).reset_index()
