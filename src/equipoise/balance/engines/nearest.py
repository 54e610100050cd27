"""From a shortlist to the answer: the one ranking, by (distance, position), of every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.balance.distances import FloatArray, IntArray, Metric, Scores

_ENTRIES_AT_ONCE = 1 << 15  # pairs · labels: what is measured together stays in cache
_PAIRS_AT_ONCE = 1 << 17
_BEHIND = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Nearest:
    """The k nearest candidates of each anchor; where there are fewer than k, −1 at distance inf."""

    distances: FloatArray  # [n, k]
    positions: IntArray  # [n, k]

    @classmethod
    def empty(cls, n: int, k: int) -> Nearest:
        return cls(np.full((n, k), np.inf), np.full((n, k), -1, dtype=np.int64))

    def merge(self, other: Nearest, shift: int) -> Nearest:
        """The nearest of two searches for the same anchors; `other`'s positions are shifted."""
        positions = np.where(other.positions < 0, -1, other.positions + shift)
        return first_k(
            np.concatenate([self.distances, other.distances], axis=1),
            np.concatenate([self.positions, positions], axis=1),
            self.positions.shape[1],
        )

    def put(self, rows: IntArray | slice, part: Nearest) -> None:
        self.distances[rows] = part.distances
        self.positions[rows] = part.positions


def rank_table(
    metric: Metric, anchors: Scores, candidates: Scores, table: IntArray, k: int
) -> Nearest:
    """Rank a shortlist of equal length for every anchor: positions [n, w], −1 for no entry."""
    n, width = table.shape
    result = Nearest.empty(n, k)
    step = max(1, _ENTRIES_AT_ONCE // (max(1, width) * anchors.log.shape[1]))
    for start in range(0, n, step):
        part = slice(start, start + step)
        positions = table[part]
        distances = metric.distance(anchors.take(part).upright(), candidates.take(positions))
        distances[positions < 0] = np.inf
        result.put(part, first_k(distances, positions, k))
    return result


def first_k(distances: FloatArray, positions: IntArray, k: int) -> Nearest:
    """The first k of each row by (distance, position); −1 stands behind everything."""
    n, width = distances.shape
    if k == 1:
        best = distances.min(axis=1)
        last = np.where(positions < 0, _BEHIND, positions)
        position = np.where(distances == best[:, None], last, _BEHIND).min(axis=1)
        position[position == _BEHIND] = -1
        return Nearest(best[:, None], position[:, None])
    result = Nearest.empty(n, k)
    order = np.argsort(distances, axis=1)[:, : k + 1]
    ordered = np.take_along_axis(distances, order, axis=1)
    tied = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    kept = slice(0, min(k, width))
    result.distances[:, kept] = ordered[:, kept]
    result.positions[:, kept] = np.take_along_axis(positions, order[:, kept], axis=1)
    if len(tied):
        last = np.where(positions[tied] < 0, _BEHIND, positions[tied])
        chosen = np.lexsort((last, distances[tied]), axis=1)[:, :k]
        result.positions[tied, kept] = np.take_along_axis(positions[tied], chosen, axis=1)
    return result


def rank_pairs(
    metric: Metric, anchors: Scores, candidates: Scores, rows: IntArray, positions: IntArray, k: int
) -> Nearest:
    """Rank shortlists of unequal length, given as pairs in order of row."""
    result = Nearest.empty(len(anchors), k)
    counts = np.bincount(rows, minlength=len(anchors))
    starts = np.cumsum(counts) - counts
    size = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    for each in np.unique(size):
        which = np.flatnonzero(size == each)
        column = np.arange(counts[which].max())
        places = np.minimum(starts[which, None] + column, len(positions) - 1)
        table = np.where(column < counts[which, None], positions[places], -1)
        result.put(which, rank_table(metric, anchors.take(which), candidates, table, k))
    return result


class DirectEngine:
    """The metric itself over all pairs: the reference."""

    name = "direct"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric, self.candidates = metric, candidates

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        step = max(1, _PAIRS_AT_ONCE // len(self.candidates))
        for start in range(0, len(anchors), step):
            part = slice(start, start + step)
            distances = self.metric.distance(anchors.take(part).upright(), self.candidates)
            positions = np.broadcast_to(np.arange(len(self.candidates)), distances.shape)
            result.put(part, first_k(distances, positions, k))
        return result
