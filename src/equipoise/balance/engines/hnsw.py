"""Approximate search in a graph of near neighbours, for those who ask for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.balance.distances import FloatArray, Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.nearest import Nearest, rank_table

_SAMPLE = 256
_LEAST_SHORTLIST = 32


class HNSWEngine:
    """Shortlists from hnswlib, ranked by the metric itself; needs the extra `equipoise[hnsw]`.

    The only engine whose answer may differ: `recall` is the share of exact matches it found
    among evenly spaced anchors. KL is looked for by the Hellinger distance of scores.
    """

    name = "hnsw"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric = metric
        self.candidates = candidates
        self.recall: float | None = None
        self._index = _import_hnswlib().Index(space="l2", dim=candidates.prob.shape[1])
        self._index.init_index(
            max_elements=len(candidates), ef_construction=200, M=16, random_seed=0
        )
        # One thread: the graph depends on the order of insertion.
        self._index.add_items(self._view(candidates), num_threads=1)

    def _view(self, scores: Scores) -> FloatArray:
        return np.sqrt(scores.prob) if self.metric.order is None else scores.prob

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        anchors = anchors.bare()
        found = self._search(anchors, k)
        sample = slice(None, None, max(1, len(anchors) // _SAMPLE))
        exact = BlockedEngine(self.metric, self.candidates).nearest(anchors.take(sample), k)
        hits = found.distances[sample] <= exact.distances
        self.recall = float(hits.mean())
        return found

    def _search(self, anchors: Scores, k: int) -> Nearest:
        width = min(len(self.candidates), max(_LEAST_SHORTLIST, 4 * k))
        self._index.set_ef(max(2 * width, 64))
        table, _ = self._index.knn_query(self._view(anchors), k=width, num_threads=1)
        return rank_table(self.metric, anchors, self.candidates, table.astype(np.int64), k)


def _import_hnswlib() -> Any:
    try:
        import hnswlib
    except ImportError as error:
        raise ImportError("engine 'hnsw' needs the extra: pip install 'equipoise[hnsw]'") from error
    return hnswlib
