"""Other libraries as proposers: faiss, proven and ranked by us, and hnswlib, approximate."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.balance.distances import FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.kernels import (
    Float32Array,
    factors_of,
    make_kernel,
    near_limit,
    prepare,
)
from equipoise.balance.engines.nearest import Nearest, rank_table
from equipoise.checks import require

_SPARE = 7  # candidates beyond k, so that most anchors are proven at the first look
_ROWS_AT_ONCE = 1 << 13


class FaissEngine:
    """Inner products (KL, L2) or L1 distances by faiss; needs the extra `equipoise[faiss]`.

    The values are those of the blocks' kernels, so the same bounds hold: an anchor is proven
    when the last candidate that faiss names is beyond the limit. The others go to the blocks.
    """

    name = "faiss"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.name == "linf":
            raise ValueError("engine 'faiss' is not for the metric 'linf': use 'auto'")
        self._faiss = require("faiss", extra="faiss")
        self.metric = metric
        self.candidates = candidates
        self._kernel = make_kernel(metric, candidates)

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        anchors = prepare(self.metric, anchors)
        factors = factors_of(self.metric, anchors)
        index = self._index(self._kernel.matrix)
        easy = np.flatnonzero(factors.corner < 0)  # others need more digits than faiss has
        unproven = [np.flatnonzero(factors.corner >= 0)]
        for start in range(0, len(easy), _ROWS_AT_ONCE):
            rows = easy[start : start + _ROWS_AT_ONCE]
            values, table = self._propose(index, factors.values[rows], k)
            limit = self._limit(anchors, rows, factors.sizes[rows], values, table, k)
            near = values <= limit[:, None]
            proven = ~near[:, -1] | (table.shape[1] == len(self.candidates))
            good = anchors.take(rows[proven]).bare()
            shortlist = np.where(near, table, -1)[proven]
            result.put(rows[proven], rank_table(self.metric, good, self.candidates, shortlist, k))
            unproven.append(rows[~proven])
        rest = np.concatenate(unproven)
        if len(rest):
            blocks = BlockedEngine(self.metric, self.candidates)
            result.put(rest, blocks.nearest(anchors.take(rest), k))
        return result

    def _index(self, matrix: Float32Array) -> Any:
        rows = np.ascontiguousarray(matrix[:, : len(self.candidates)].T)
        if self._kernel.combine == "dot":
            index = self._faiss.IndexFlatIP(rows.shape[1])
            index.add(-rows)
        else:
            index = self._faiss.IndexFlat(rows.shape[1], self._faiss.METRIC_L1)
            index.add(rows)
        return index

    def _propose(self, index: Any, factors: Float32Array, k: int) -> tuple[Float32Array, IntArray]:
        values, table = index.search(factors, min(k + _SPARE, len(self.candidates)))
        return -values if self._kernel.combine == "dot" else values, table.astype(np.int64)

    def _limit(
        self,
        anchors: Scores,
        rows: IntArray,
        sizes: np.ndarray,
        values: Float32Array,
        table: IntArray,
        k: int,
    ) -> Float32Array:
        if self._kernel.bounded:
            upper = self._kernel.upper(sizes, values[:, k - 1])
        else:
            bare = anchors.take(rows).bare()
            upper = rank_table(self.metric, bare, self.candidates, table, k).distances[:, -1]
        return near_limit(self._kernel, sizes, upper)


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
