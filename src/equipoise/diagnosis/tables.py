"""Before and after, for all label pairs: differences, variance ratios, KS, overlap of scores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
#: Histograms of scores have so many bins.
BINS = 20


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
    keys = ["environment", "kind", "covariate", "first", "second"]
    empty = pd.DataFrame(columns=[*keys, "smd_before", "smd_after", *_SHAPE_COLUMNS])
    table = pd.concat(parts, ignore_index=True) if parts else empty
    names = pd.Index(groups.label_names)
    places = pd.Index(groups.places)
    for column, categories in (("environment", places), ("first", names), ("second", names)):
        codes = table[column].to_numpy(dtype=np.int64)
        table[column] = pd.Categorical.from_codes(codes, categories=categories)
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


@dataclass(frozen=True)
class Overlap:
    """Overlap of every label pair, and the histograms it was read from.

    table: environment, first, second, overlap_before, overlap_after (shared area of the two
        histograms, 0 to 1), first_in_support, second_in_support (shares of examples within the
        other label's range).
    histograms: environment, first, second, propensity (middle of the bin), and for each of the
        two labels its share of examples there: first_before, second_before, first_after,
        second_after.
    """

    table: pd.DataFrame
    histograms: pd.DataFrame


def measure_overlap(
    log_scores: Floats, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> Overlap:
    """Compare each pair on its propensity p(first | z, one of the two), within environments.

    With two labels that is the propensity score itself. Examples of no overlap have no match
    worth the name, however many are drawn.

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    >>> groups = Groups(np.array([0, 0, 1, 1]), np.zeros(4, dtype=int), ("a", "b"), ("rome",))
    >>> pair = np.array([0]), np.array([1])
    >>> measure_overlap(scores, groups, np.ones(4), *pair).table["overlap_before"].tolist()
    [0.5]
    """
    rows, histograms = [], []
    middles = (np.arange(BINS) + 0.5) / BINS
    for environment, name in enumerate(groups.environment_names):
        here = np.flatnonzero(groups.environments == environment)
        members = [here[groups.labels[here] == label] for label in range(groups.shape[1])]
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            if not (len(members[i]) and len(members[j])):
                continue
            propensity = [_propensity(log_scores[members[k]], i, j) for k in (i, j)]
            shares = [
                [_histogram(p, w) for p, w in zip(propensity, mass, strict=True)]
                for mass in ([None, None], [weights[members[i]], weights[members[j]]])
            ]
            pair = {"environment": name}
            pair |= {"first": groups.label_names[i], "second": groups.label_names[j]}
            (before_i, before_j), (after_i, after_j) = shares
            rows.append(
                pair
                | {
                    "overlap_before": float(np.minimum(before_i, before_j).sum()),
                    "overlap_after": float(np.minimum(after_i, after_j).sum()),
                    "first_in_support": _inside(propensity[0], propensity[1]),
                    "second_in_support": _inside(propensity[1], propensity[0]),
                }
            )
            histograms.append(
                pd.DataFrame(
                    pair
                    | {
                        "propensity": middles,
                        "first_before": before_i,
                        "second_before": before_j,
                        "first_after": after_i,
                        "second_after": after_j,
                    }
                )
            )
    if not rows:  # no environment has two labels
        return Overlap(
            pd.DataFrame(columns=["environment", "first", "second", "overlap_before"]),
            pd.DataFrame(columns=["environment", "first", "second", "propensity"]),
        )
    return Overlap(pd.DataFrame(rows), pd.concat(histograms, ignore_index=True))


def _propensity(log_scores: Floats, first: int, second: int) -> Floats:
    with np.errstate(invalid="ignore"):
        logit = log_scores[:, first] - log_scores[:, second]
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.nan_to_num(logit), -700, 700))))


def _histogram(propensity: Floats, weights: Floats | None) -> Floats:
    bins = np.minimum((propensity * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, weights, minlength=BINS)
    return np.asarray(counts / max(counts.sum(), 1e-300))  # all 0 where nothing is left


def _inside(mine: Floats, others: Floats) -> float:
    return float(((mine >= others.min()) & (mine <= others.max())).mean())
