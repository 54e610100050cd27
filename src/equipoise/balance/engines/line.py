"""Two labels: scores lie on a line, so the nearest stand beside the anchor once sorted."""

from __future__ import annotations

import numpy as np

from equipoise.balance.distances import RELATIVE_SLACK, FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.direct import DirectEngine
from equipoise.balance.engines.nearest import Nearest, rank_table

_ROWS_AT_ONCE = 1 << 15
_WIDEST = 512
_DENORMAL = 1e-320  # below this floats have no relative precision


class LineEngine:
    """Sorts candidates by one label's probability and looks at a window around the anchor.

    Whatever lies outside the window differs from the anchor in that one label by at least what
    the window's edge does, and the metric is at least that label's term: this is the proof.
    Each anchor is looked up by its less likely label, where log-scores resolve best.
    """

    name = "line"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if candidates.log.shape[1] != 2:
            raise ValueError(f"engine 'line' needs two labels, not {candidates.log.shape[1]}")
        self.metric = metric
        self.candidates = candidates
        self._axes = [_Axis(metric, candidates.column(label)) for label in (0, 1)]

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        rarer = anchors.log[:, 1] < anchors.log[:, 0]
        for label in (0, 1):
            rows = np.flatnonzero(rarer == bool(label))
            rows = rows[np.argsort(anchors.log[rows, label])]  # neighbours share cache lines
            for start in range(0, len(rows), _ROWS_AT_ONCE):
                self._search(anchors, rows[start : start + _ROWS_AT_ONCE], label, k, result)
        return result

    def _search(self, anchors: Scores, rows: IntArray, label: int, k: int, result: Nearest) -> None:
        reach = k + 1
        while len(rows):
            if reach > _WIDEST and 2 * reach < len(self.candidates):
                direct = DirectEngine(self.metric, self.candidates)
                result.put(rows, direct.nearest(anchors.take(rows), k))
                return
            p = anchors.take(rows)
            table, bound = self._axes[label].window(p.column(label), reach)
            found = rank_table(self.metric, p, self.candidates, table, k)
            covered = np.count_nonzero(table >= 0, axis=1) == len(self.candidates)
            proven = covered | (found.distances[:, -1] < bound)
            result.put(rows[proven], Nearest(found.distances[proven], found.positions[proven]))
            rows = rows[~proven]
            reach *= 4


class _Axis:
    """Candidates in the order of one label's score."""

    def __init__(self, metric: Metric, column: Scores) -> None:
        self.metric = metric
        self.order = np.argsort(metric.key(column), kind="stable").astype(np.int64)
        self.column = column.take(self.order)

    def window(self, p: Scores, reach: int) -> tuple[IntArray, FloatArray]:
        """Positions [n, 2·reach] around each anchor, and the least distance of all others."""
        n = len(self.order)
        middle = np.searchsorted(self.metric.key(self.column), self.metric.key(p))
        places = middle[:, None] + np.arange(-reach, reach)
        inside = (places >= 0) & (places < n)
        table = np.where(inside, self.order[np.clip(places, 0, n - 1)], -1)
        left = self._edge(p, middle - reach - 1)
        right = self._edge(p, middle + reach)
        return table, np.minimum(left, right) * (1 - RELATIVE_SLACK) - _DENORMAL

    def _edge(self, p: Scores, places: IntArray) -> FloatArray:
        n = len(self.order)
        term = self.metric.term(p, self.column.take(np.clip(places, 0, n - 1)))
        return np.where((places >= 0) & (places < n), term, np.inf)
