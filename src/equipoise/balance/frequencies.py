"""How often balanced batches show each example: the weights that matching amounts to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.matches import Matches


def balanced_frequencies(matches: Matches, n_matches: int | None = None) -> NDArray[np.float64]:
    """Expected appearances [N] of every example when each is an anchor once.

    Anchors count 1, or 0 without any match, as batches leave them out. A label drawn with
    probability a / (labels that have a match) passes its share on to the k nearest, equally. With
    a = m−1 the weights give the balanced distribution, so a weighted accuracy estimates accuracy
    where nothing is spurious.
    """
    n, m, _ = matches.indices.shape
    gained = count_appearances(matches, m - 1 if n_matches is None else n_matches, n_examples=n)
    return gained + matches.matched


def count_appearances(matches: Matches, n_matches: int, *, n_examples: int) -> NDArray[np.float64]:
    """Expected appearances [n_examples] as a match, when each anchor of a table is one once.

    The table may be that of some anchors only; its indices are of all the examples.
    """
    found = matches.indices >= 0
    n_labels = found[:, :, 0].sum(axis=1)  # labels that have a match
    drawn = np.minimum(n_matches, n_labels) / np.maximum(n_labels, 1)  # [N]
    share = drawn[:, None] / np.maximum(found.sum(axis=2), 1)  # [N, m]
    weights = np.broadcast_to(share[..., None], found.shape)[found]
    gained = np.bincount(matches.indices[found], weights=weights, minlength=n_examples)
    return np.asarray(gained, dtype=np.float64)


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Kish's (Σw)² / Σw²: how many equally weighted examples carry as much.

    >>> effective_sample_size(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    total = float(weights.sum())
    return total**2 / float(np.square(weights).sum()) if total else 0.0
