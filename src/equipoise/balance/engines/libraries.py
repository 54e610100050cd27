"""Other libraries as proposers: faiss, proven and ranked by us, and hnswlib, approximate."""

from __future__ import annotations

import numpy as np

from equipoise.balance.distances import FloatArray, Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.kernels import make_kernel, near_limit, prepare
from equipoise.balance.engines.nearest import Nearest, rank_table
from equipoise.checks import require

_SPARE = 7  # candidates beyond k, so that most anchors are proven at the first look
_ROWS_AT_ONCE = 1 << 13
_SAMPLE = 256
_LEAST_SHORTLIST = 32


class FaissEngine:
    """Inner products (KL, L2) or L1 distances by faiss; needs the extra `equipoise[faiss]`.

    The bounds of blocks hold: what the last candidate named does not prove goes to blocks.
    """

    name = "faiss"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.name == "linf":
            raise ValueError("engine 'faiss' is not for the metric 'linf': use 'auto'")
        faiss = require("faiss", extra="faiss")
        self.metric, self.candidates = metric, candidates
        self._kernel = make_kernel(metric, candidates)
        rows = np.ascontiguousarray(self._kernel.matrix[:, : len(candidates)].T)
        kind = faiss.METRIC_INNER_PRODUCT if self._kernel.combine == "dot" else faiss.METRIC_L1
        self._sign = -1 if self._kernel.combine == "dot" else 1
        self._index = faiss.IndexFlat(rows.shape[1], kind)
        self._index.add(self._sign * rows)

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        anchors = prepare(self.metric, anchors)
        factors = anchors.factors
        easy = np.flatnonzero(factors.corner < 0)  # others need more digits than faiss has
        unproven = [np.flatnonzero(factors.corner >= 0)]
        width = min(k + _SPARE, len(self.candidates))
        for start in range(0, len(easy), _ROWS_AT_ONCE):
            rows = easy[start : start + _ROWS_AT_ONCE]
            bare = anchors.take(rows).bare()
            values, table = self._index.search(factors.values[rows], width)
            values, sizes = self._sign * values, factors.sizes[rows]
            if self._kernel.bounded:
                upper = self._kernel.upper(sizes, values[:, k - 1])
            else:
                upper = rank_table(self.metric, bare, self.candidates, table, k).distances[:, -1]
            near = values <= near_limit(self._kernel, sizes, upper)[:, None]
            proven = ~near[:, -1] | (width == len(self.candidates))
            found = rank_table(
                self.metric,
                bare.take(proven),
                self.candidates,
                np.where(near, table, -1)[proven],
                k,
            )
            result.put(rows[proven], found)
            unproven.append(rows[~proven])
        rest = np.concatenate(unproven)
        if len(rest):
            blocks = BlockedEngine(self.metric, self.candidates)
            result.put(rest, blocks.nearest(anchors.take(rest), k))
        return result


class HNSWEngine:
    """Shortlists from hnswlib, ranked by the metric itself; needs the extra `equipoise[hnsw]`.

    The only engine whose answer may differ: `recall` is measured against an exact sample.
    """

    name = "hnsw"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric, self.candidates = metric, candidates
        self.recall: float | None = None
        hnswlib = require("hnswlib", extra="hnsw")
        self._index = hnswlib.Index(space="l2", dim=candidates.prob.shape[1])
        self._index.init_index(
            max_elements=len(candidates), ef_construction=200, M=16, random_seed=0
        )
        # One thread: the graph depends on the order of insertion.
        self._index.add_items(self._view(candidates), num_threads=1)

    def _view(self, scores: Scores) -> FloatArray:
        return np.sqrt(scores.prob) if self.metric.order is None else scores.prob

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        anchors = anchors.bare()
        width = min(len(self.candidates), max(_LEAST_SHORTLIST, 4 * k))
        self._index.set_ef(max(2 * width, 64))
        table, _ = self._index.knn_query(self._view(anchors), k=width, num_threads=1)
        found = rank_table(self.metric, anchors, self.candidates, table.astype(np.int64), k)
        sample = slice(None, None, max(1, len(anchors) // _SAMPLE))
        exact = BlockedEngine(self.metric, self.candidates).nearest(anchors.take(sample), k)
        self.recall = float((found.distances[sample] <= exact.distances).mean())
        return found
