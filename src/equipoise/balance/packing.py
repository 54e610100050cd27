"""Matches as small arrays for a file: only what was found, in the integers it needs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.matches import Matches


def pack_matches(matches: Matches) -> dict[str, NDArray]:
    """Found indices and distances one after the other, and how many each (anchor, label) has.

    Found matches come before the missing ones, nearest first, so the counts tell their places.
    """
    found = matches.indices >= 0
    return {
        "match_counts": found.sum(axis=2, dtype=np.int32),
        "match_indices": matches.indices[found].astype(np.int32),
        "match_distances": matches.distances[found],
    }


def unpack_matches(arrays: Mapping[str, NDArray], *, k: int, metric: str) -> Matches:
    """What `pack_matches` took in.

    >>> distances = np.array([[[0.5, np.inf]], [[0.0, 1.0]]])
    >>> given = Matches(np.array([[[3, -1]], [[2, 0]]]), distances, "kl")
    >>> unpack_matches(pack_matches(given), k=2, metric="kl").indices.tolist()
    [[[3, -1]], [[2, 0]]]
    """
    counts = arrays["match_counts"]
    found = np.arange(k) < counts[:, :, None]
    indices = np.full(found.shape, -1, dtype=np.int64)
    distances = np.full(found.shape, np.inf)
    indices[found] = arrays["match_indices"]
    distances[found] = arrays["match_distances"]
    return Matches(indices, distances, metric)
