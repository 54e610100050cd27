"""Which anchors a person is shown, and their nearest matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.balance import Matches

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ShownMatch:
    """A match of an anchor: its row, its label code, the distance of the scores."""

    example: int
    label: int
    distance: float


@dataclass(frozen=True)
class ShownAnchor:
    """An anchor and, nearest labels first, its nearest matches.

    `n_near` counts, for each label shown, the matches a batch draws from.
    """

    example: int
    matches: tuple[ShownMatch, ...]
    n_near: dict[int, int]


def choose_anchors(
    labels: Ints, environments: Ints, n_anchors: int, generator: np.random.Generator
) -> Ints:
    """Rows drawn at random, as evenly from all (label, environment) pairs as they allow.

    Where there are more pairs than room, every label comes once before any comes twice.

    >>> y, e = np.array([0, 0, 0, 1]), np.zeros(4, dtype=int)
    >>> np.unique(y[choose_anchors(y, e, 2, np.random.default_rng(0))])
    array([0, 1])
    """
    shuffled = generator.permutation(len(labels))
    y, e = labels[shuffled], environments[shuffled]
    n_environments = int(environments.max(initial=0)) + 1
    turn = (e - y) % n_environments  # each label begins with another environment
    round_ = _count_before(y * n_environments + e)
    first = np.flatnonzero(round_ == 0)
    first = first[np.argsort(turn[first], kind="stable")]
    place = np.zeros((int(labels.max(initial=0)) + 1, n_environments), dtype=np.int64)
    place[y[first], e[first]] = _count_before(y[first])  # of the pair among its label's pairs
    taken = shuffled[np.lexsort((y, place[y, e], round_))][:n_anchors]
    return np.asarray(taken[np.lexsort((environments[taken], labels[taken]))], dtype=np.int64)


def _count_before(codes: Ints) -> Ints:
    """How often each code [N] has come before, reading from the start."""
    order = np.argsort(codes, kind="stable")
    _, starts, counts = np.unique(codes[order], return_index=True, return_counts=True)
    before = np.empty(len(codes), dtype=np.int64)
    before[order] = np.arange(len(codes)) - np.repeat(starts, counts)
    return before


def find_farthest(matches: Matches, n_anchors: int) -> Ints:
    """Anchors whose nearest match of some label is the farthest: where matching is weakest."""
    nearest = matches.distances[:, :, 0]
    worst = np.where(np.isfinite(nearest), nearest, -1.0).max(axis=1)
    order = np.argsort(-worst, kind="stable")[:n_anchors]
    return np.asarray(order[worst[order] > 0], dtype=np.int64)


def show_anchors(
    matches: Matches, anchors: Ints, *, n_labels: int = 12, per_label: int = 3
) -> tuple[ShownAnchor, ...]:
    """Each anchor with `per_label` matches of up to `n_labels` labels, nearest first."""
    shown = []
    for anchor in anchors.tolist():
        indices, distances = matches.indices[anchor], matches.distances[anchor]  # [m, k]
        found = np.flatnonzero(indices[:, 0] >= 0)
        nearest = found[np.argsort(distances[found, 0], kind="stable")][:n_labels]
        listed = tuple(
            ShownMatch(int(indices[label, place]), int(label), float(distances[label, place]))
            for label in nearest
            for place in range(min(per_label, matches.k))
            if indices[label, place] >= 0
        )
        n_near = {int(label): int((indices[label] >= 0).sum()) for label in nearest}
        shown.append(ShownAnchor(anchor, listed, n_near))
    return tuple(shown)
