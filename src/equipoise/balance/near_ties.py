"""Which of the k nearest are as good as the nearest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from equipoise.balance.encoding import Encoding, as_table, check_alignment
from equipoise.balance.match_input import check_codes, check_count
from equipoise.balance.matches import Matches

_ENTRIES_AT_ONCE = 1 << 22


def keep_near_ties(matches: Matches, tolerance: float) -> Matches:
    """Drop matches farther than `tolerance`, but never an anchor's nearest.

    What is left is a set to draw from at random. Always taking the very nearest would favour
    examples that resemble the anchor in more than the covariate: among noisy labels, the
    mislabelled ones.

    >>> found = Matches(np.array([[[3, 4, 5]]]), np.array([[[0.2, 0.25, 0.6]]]), "kl")
    >>> keep_near_ties(found, 0.3).indices
    array([[[ 3,  4, -1]]])
    """
    check_tolerance(tolerance)
    far = matches.distances > tolerance
    far[:, :, 0] = False
    return replace(
        matches,
        indices=np.where(far, -1, matches.indices),
        distances=np.where(far, np.inf, matches.distances),
    )


def keep_closest(matches: Matches, covariates: Any, labels: Any, *, n_nearest: int = 1) -> Matches:
    """Of each list of matches keep those nearest in the covariates themselves.

    Mahalanobis distance among examples of nearly the same score (Rubin and Thomas 2000): a score
    balances covariates on average, this also pairs examples that are alike. Ask `match_scores`
    for many, such as `n_nearest=100`, and keep one. Distances stay those of the scores.

    Parameters
    ----------
    matches : Matches
    covariates : DataFrame or array-like, [N, p]
    labels : integer codes [N]
    n_nearest : int
        How many are kept for each anchor and label.

    Examples
    --------
    >>> found = Matches(np.array([[[1, 2]], [[0, -1]], [[0, -1]]]), np.zeros((3, 1, 2)), "kl")
    >>> keep_closest(found, [1.0, 5.0, 2.0], [0, 1, 1]).indices[:, 0, 0]
    array([2, 0, 0])
    """
    check_count("n_nearest", n_nearest)
    check_alignment(covariates, labels, len(matches))
    table = as_table(covariates)
    points = Encoding.learn(table).encode(table)
    codes = check_codes("labels", labels, len(points))
    # The covariance within labels, so that their difference does not make a gap look small.
    counts = np.bincount(codes)
    centers = np.column_stack(
        [np.bincount(codes, column) / np.maximum(counts, 1) for column in points.T]
    )
    inner = points - centers[codes]
    sizes, axes = np.linalg.eigh(inner.T @ inner / len(inner))
    useful = sizes > 1e-9 * max(sizes.max(), 1e-300)
    points = points @ (axes[:, useful] / np.sqrt(sizes[useful]))
    n, m, k = matches.indices.shape
    kept = np.empty((n, m, min(k, n_nearest)), dtype=np.int64)
    for start in range(0, n, max(1, _ENTRIES_AT_ONCE // (m * k * points.shape[1]))):
        part = slice(start, start + max(1, _ENTRIES_AT_ONCE // (m * k * points.shape[1])))
        some = matches.indices[part]
        gaps = np.square(points[part, None, None] - points[some]).sum(axis=3)
        order = np.argsort(np.where(some < 0, np.inf, gaps), axis=2, kind="stable")
        kept[part] = order[:, :, :n_nearest]
    return replace(
        matches,
        indices=np.take_along_axis(matches.indices, kept, axis=2),
        distances=np.take_along_axis(matches.distances, kept, axis=2),
    )


def check_tolerance(tolerance: float) -> None:
    """A distance, 0 or more."""
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be 0 or more, got {tolerance}")
