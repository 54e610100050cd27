"""Lp metrics over few labels: a kd-tree of the candidates' probabilities."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from equipoise.balance.distances import RELATIVE_SLACK, Metric, Scores
from equipoise.balance.engines.boxes import partition
from equipoise.balance.engines.direct import DirectEngine
from equipoise.balance.engines.nearest import Nearest, rank_table

_ROWS_AT_ONCE = 1 << 14
_OUT_OF_CACHE = 1 << 14  # candidates
_SQUARES_UNDERFLOW = 1e-150  # the tree squares differences; smaller ones are lost to it


class KDTreeEngine:
    """One neighbour more than asked for: if that one is farther, the others are the nearest.

    Anchors whose last neighbours tie ask again for more, and in the end for all.
    """

    name = "kdtree"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.order is None:
            raise ValueError(f"engine 'kdtree' knows only Lp metrics, not {metric.name!r}")
        self.metric = metric
        self.order = metric.order
        self.candidates = candidates
        self._tree = cKDTree(candidates.prob, balanced_tree=False)
        self._loss = _SQUARES_UNDERFLOW if metric.order == 2 else 0.0

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        order = np.arange(len(anchors))
        if len(self.candidates) > _OUT_OF_CACHE and len(anchors) > _ROWS_AT_ONCE:
            order, _ = partition(anchors.bare(), 64)  # neighbours walk the same branches
        for start in range(0, len(anchors), _ROWS_AT_ONCE):
            self._search(anchors, order[start : start + _ROWS_AT_ONCE], k, result)
        return result

    def _search(self, anchors: Scores, rows: np.ndarray, k: int, result: Nearest) -> None:
        width = k + 1
        while len(rows):
            if width >= len(self.candidates) or width > 64 * k:
                direct = DirectEngine(self.metric, self.candidates)
                result.put(rows, direct.nearest(anchors.take(rows), k))
                return
            p = anchors.take(rows)
            far, table = self._tree.query(p.prob, k=width, p=self.order)
            found = rank_table(self.metric, p, self.candidates, table.astype(np.int64), k)
            bound = far[:, -1] * (1 - RELATIVE_SLACK) - self._loss
            proven = found.distances[:, -1] < bound
            result.put(rows[proven], Nearest(found.distances[proven], found.positions[proven]))
            rows = rows[~proven]
            width *= 4
