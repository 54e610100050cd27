"""Every candidate measured for every anchor, in blocks: the reference and the last resort."""

from __future__ import annotations

import numpy as np

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.nearest import Nearest

_PAIRS_AT_ONCE = 1 << 17


class DirectEngine:
    """The metric itself over all pairs; needs no proof and little memory.

    >>> from equipoise.balance.distances import get_metric
    >>> candidates = Scores.from_log(np.log([[0.5, 0.5], [0.1, 0.9]]))
    >>> DirectEngine(get_metric("l1"), candidates).nearest(candidates, k=1).positions.ravel()
    array([0, 1])
    """

    name = "direct"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric = metric
        self.candidates = candidates

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        n, columns = len(anchors), len(self.candidates)
        result = Nearest.empty(n, k)
        across = min(columns, _PAIRS_AT_ONCE)
        down = max(1, _PAIRS_AT_ONCE // across)
        for start in range(0, n, down):
            rows = slice(start, min(n, start + down))
            result.put(rows, self._nearest(anchors.take(rows), k, across))
        return result

    def _nearest(self, anchors: Scores, k: int, across: int) -> Nearest:
        best = Nearest.empty(len(anchors), k)
        p = Scores(anchors.log[:, None], anchors.prob[:, None])
        for start in range(0, len(self.candidates), across):
            part = self.candidates.take(slice(start, start + across))
            distances = self.metric.distance(p, part)
            keep = min(k, len(part))
            if keep < len(part):
                # Everything up to the keep-th distance, ties included.
                cut = np.partition(distances, keep - 1, axis=1)[:, keep - 1]
                rows, columns = np.nonzero(distances <= cut[:, None])
            else:
                rows, columns = np.indices(distances.shape).reshape(2, -1)
            found = _first_k_of_pairs(distances, rows, columns, keep)
            best = best.merge(found, start)
        return best


def _first_k_of_pairs(
    distances: np.ndarray, rows: np.ndarray, columns: np.ndarray, keep: int
) -> Nearest:
    # np.nonzero gives columns in order, so a stable sort by distance leaves ties by position.
    values = distances[rows, columns]
    order = np.lexsort((columns, values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, np.arange(len(distances)))[rows]
    kept = rank < keep
    shape = (len(distances), keep)
    return Nearest(values[kept].reshape(shape), columns[kept].reshape(shape).astype(np.int64))
