"""Common support: how far the scores of two labels cover the same ground."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import Groups

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BINS = 20


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
