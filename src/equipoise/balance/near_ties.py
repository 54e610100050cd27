"""Which of the k nearest are as good as the nearest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from equipoise.balance.matches import Matches


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


def check_tolerance(tolerance: float) -> None:
    """A distance, 0 or more."""
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be 0 or more, got {tolerance}")
