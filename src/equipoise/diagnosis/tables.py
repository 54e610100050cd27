"""Before and after, for all label pairs: differences, variance ratios, KS, overlap of scores."""

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
#: Histograms of scores have so many bins.
BINS = 20
MIDDLES = (np.arange(BINS) + 0.5) / BINS
#: Deviations below this part of the whole are errors of rounding.
ROUNDING = 1e-6

WHEN = ("before", "after")
SIDES = ("first", "second")
OVERLAP = ["environment", *SIDES, "overlap_before", "overlap_after"]
OVERLAP += ["first_in_support", "second_in_support"]
HISTOGRAM = ["propensity", *(f"{side}_{when}" for when in WHEN for side in SIDES)]
MEASURES = [f"{name}_{when}" for name in ("smd", "variance_ratio", "ks") for when in WHEN]


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
    empty = pd.DataFrame(columns=["environment", "kind", "covariate", *SIDES, *MEASURES])
    table = pd.concat(parts, ignore_index=True) if parts else empty
    for column in ("environment", *SIDES):
        names = pd.Index(groups.places if column == "environment" else groups.label_names)
        codes = table[column].to_numpy(dtype=np.int64)
        table[column] = pd.Categorical.from_codes(codes, categories=names)
    for column in ("kind", "covariate"):
        table[column] = pd.Categorical(table[column], categories=table[column].unique())
    return table


def _compare(
    covariate: Covariate, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> pd.DataFrame:
    moments = [groups.moments(covariate.values, mass) for mass in (np.ones(len(groups)), weights)]
    scale = unmatched_deviation(covariate.values, moments[0][1])  # [E + 1]
    found = [np.abs(mean[:, first] - mean[:, second]) / scale[:, None] for mean, _ in moments]
    if covariate.kind not in ("square", "product"):
        least = (ROUNDING * covariate.values.std()) ** 2
        for _, variance in moments:
            spread = np.where(variance < least, 0.0, variance)  # NaN where a label is missing
            found.append(_ratio(spread[:, first], spread[:, second]))
        found += compare_distributions(covariate.values, groups, weights, first, second)
    table = pd.DataFrame(
        {
            "environment": np.repeat(np.arange(len(scale)), len(first)),
            "kind": covariate.kind,
            "covariate": covariate.name,
            "first": np.tile(first, len(scale)),
            "second": np.tile(second, len(scale)),
            **dict.fromkeys(MEASURES, np.nan),
            **{name: values.ravel() for name, values in zip(MEASURES, found, strict=False)},
        }
    )
    return table[table["smd_before"].notna()]


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
    return np.where(pooled > ROUNDING * fallback, pooled, fallback)


def _ratio(first: Floats, second: Floats) -> Floats:
    """The larger variance over the smaller; two of zero are alike."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((high == 0) & (low == 0), 1.0, high / low)


def compare_distributions(
    values: Floats, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> list[Floats]:
    """Largest gap between two labels' distribution functions, before and after [E + 1, pairs]."""
    points = np.unique(values)
    if len(points) > KS_POINTS:
        points = np.unique(np.quantile(points, np.linspace(0, 1, KS_POINTS), method="nearest"))
    bins = np.searchsorted(points, values, side="left")  # values ≤ points[bin]
    shape = (*groups.shape, len(points))
    gaps = []
    for mass in (np.ones(len(groups)), weights):
        cells = groups.codes * len(points) + bins
        counts = np.bincount(cells, weights=mass, minlength=int(np.prod(shape))).reshape(shape)
        counts = np.concatenate([counts, counts.sum(axis=0, keepdims=True)])
        with np.errstate(invalid="ignore"):
            function = counts.cumsum(axis=2) / counts.sum(axis=2, keepdims=True)
        # A place at a time: all pairs of all places would not fit into memory.
        gaps.append(np.stack([np.abs(f[first] - f[second]).max(axis=1) for f in function]))
    return gaps


def find_worst_pairs(table: pd.DataFrame) -> pd.DataFrame:
    """For each environment and covariate the worst pair of labels, and the mean over all pairs."""
    keys = [table[name] for name in ("environment", "kind", "covariate")]
    grouped = table.groupby(keys, observed=True, sort=False)
    worst = grouped[MEASURES].max()
    means = grouped[["smd_before", "smd_after"]].mean().add_prefix("mean_")
    for when in WHEN:
        # Where trimming left nothing, no pair differs; the first then stands for all.
        sizes = table[f"smd_{when}"].fillna(-1.0)
        rows = table.loc[sizes.groupby(keys, observed=True, sort=False).idxmax()]
        names = rows["first"].astype(str) + " – " + rows["second"].astype(str)
        worst[f"pair_{when}"] = names.to_numpy()
    return worst.join(means).reset_index()


def measure_overlap(
    log_scores: Floats, groups: Groups, weights: Floats, first: Ints, second: Ints
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare each pair on its propensity p(first | z, one of the two), within environments.

    With two labels that is the propensity score itself. Examples of no overlap have no match
    worth the name, however many are drawn.

    Returns
    -------
    table : DataFrame
        environment, first, second, overlap_before, overlap_after (shared area of the two
        histograms, 0 to 1), first_in_support, second_in_support (shares of examples within the
        other label's range).
    histograms : DataFrame
        environment, first, second, propensity (middle of the bin), and each label's share of
        examples there: first_before, second_before, first_after, second_after.

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.5, 0.5], [0.1, 0.9]])
    >>> groups = Groups(np.array([0, 0, 1, 1]), np.zeros(4, dtype=int), ("a", "b"), ("rome",))
    >>> table, _ = measure_overlap(scores, groups, np.ones(4), np.array([0]), np.array([1]))
    >>> table["overlap_before"].tolist()
    [0.5]
    """
    rows, shares = [], [np.empty((0, 5))]
    for environment, place in enumerate(groups.environment_names):
        here = groups.environments == environment
        members = [np.flatnonzero(here & (groups.labels == y)) for y in range(groups.shape[1])]
        for i, j in zip(first.tolist(), second.tolist(), strict=True):
            if not (len(members[i]) and len(members[j])):
                continue
            one, other = (_propensity(log_scores[members[k]], i, j) for k in (i, j))
            before, after = (
                [_histogram(one, mass[members[i]]), _histogram(other, mass[members[j]])]
                for mass in (np.ones(len(groups)), weights)
            )
            shared = np.minimum(*before).sum(), np.minimum(*after).sum()
            names = groups.label_names[i], groups.label_names[j]
            rows.append((place, *names, *shared, _inside(one, other), _inside(other, one)))
            shares.append(np.stack([MIDDLES, *before, *after], axis=1))
    table = pd.DataFrame(rows, columns=OVERLAP)
    histograms = table.loc[table.index.repeat(BINS), OVERLAP[:3]].reset_index(drop=True)
    return table, histograms.join(pd.DataFrame(np.concatenate(shares), columns=HISTOGRAM))


def _propensity(log_scores: Floats, first: int, second: int) -> Floats:
    with np.errstate(invalid="ignore"):
        logit = log_scores[:, first] - log_scores[:, second]
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(np.nan_to_num(logit), -700, 700))))


def _histogram(propensity: Floats, weights: Floats) -> Floats:
    bins = np.minimum((propensity * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, weights, minlength=BINS)
    return np.asarray(counts / max(counts.sum(), 1e-300))  # all 0 where nothing is left


def _inside(mine: Floats, others: Floats) -> float:
    return float(((mine >= others.min()) & (mine <= others.max())).mean())
