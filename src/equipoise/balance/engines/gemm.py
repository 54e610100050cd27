"""KL over many pairs: one matrix product in float32 rules out nearly every candidate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import RELATIVE_SLACK, FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.nearest import Nearest, rank_pairs, rank_table

Float32Array = NDArray[np.float32]

_BLOCK_BYTES = 2 << 20  # a block of products stays in the cache of one core
_GROUPS = (16, 8, 4, 2, 1)  # how many columns are looked at together
_ABSENT = np.float32(1e30)  # stands for −log 0: finite, so that 0 · it is 0
_NEGLIGIBLE = 1e-30  # smaller probabilities count as 0 in the product


class GemmEngine:
    """KL(p‖q) = ⟨p, −log q⟩ + Σq − H(p) − Σp, and every product in ⟨p, −log q⟩ is positive.

    So float32 errs by a known *fraction* of it. The best few by product are measured exactly;
    every candidate whose product, less that fraction, is not above them is measured as well.
    """

    name = "gemm"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.name != "kl":
            raise ValueError(f"engine 'gemm' knows only the metric 'kl', not {metric.name!r}")
        self.metric = metric
        self.candidates = candidates
        n, m = candidates.log.shape
        self._lift = max(0.0, float(candidates.log.max()))  # scores a rounding error above 1
        excess = _excess(candidates)
        padded = -(-n // _GROUPS[0]) * _GROUPS[0]
        matrix = np.full((m + 1, padded), _ABSENT, dtype=np.float32)
        with np.errstate(over="ignore"):
            matrix[:m, :n] = np.minimum(self._lift - candidates.log.T, _ABSENT)
        matrix[m, :n] = excess
        self._matrix = matrix
        # Rounding of both factors, of m + 1 products and of their sum, with room to spare.
        self._fraction = (m + 8) * float(np.finfo(np.float32).eps)
        self._loss = 4 * self._fraction * float(np.abs(excess).max(initial=0.0)) + 1e-37

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        n, columns = len(anchors), self._matrix.shape[1]
        result = Nearest.empty(n, k)
        step = max(1, _BLOCK_BYTES // (4 * columns))
        products = np.empty((min(step, n), columns), dtype=np.float32)
        for start in range(0, n, step):
            rows = slice(start, min(n, start + step))
            p = anchors.take(rows)
            result.put(rows, self._nearest(p, k, products[: len(p)]))
        return result

    def _nearest(self, p: Scores, k: int, products: Float32Array) -> Nearest:
        factors = np.ones((len(p), p.log.shape[1] + 1), dtype=np.float32)
        factors[:, :-1] = np.where(p.prob < _NEGLIGIBLE, 0.0, p.prob)
        np.matmul(factors, self._matrix, out=products)
        best = rank_table(self.metric, p, self.candidates, self._best(products, k), k)
        limit = self._limit(p, best.distances[:, -1])
        rows, positions = np.divmod(np.flatnonzero(products <= limit[:, None]), products.shape[1])
        real = positions < len(self.candidates)
        return rank_pairs(self.metric, p, self.candidates, rows[real], positions[real], k)

    def _best(self, products: Float32Array, k: int) -> IntArray:
        """Some k candidates of small product: one from each of k groups."""
        n, columns = products.shape
        if k == 1:
            table = products.argmin(axis=1)[:, None]
        else:
            size = next((size for size in _GROUPS if columns >= 4 * k * size), 1)
            width = columns // size  # group g holds the columns g, g + width, g + 2·width, …
            groups = products.reshape(n, size, width)
            smallest = groups.min(axis=1)
            chosen = min(k, width)
            which = np.argpartition(smallest, chosen - 1, axis=1)[:, :chosen]
            members = np.take_along_axis(groups, which[:, None, :], axis=2).argmin(axis=1)
            table = members * width + which
        return np.where(table < len(self.candidates), table, -1)

    def _limit(self, p: Scores, distance: FloatArray) -> Float32Array:
        """The largest product that a candidate at most `distance` away can have."""
        with np.errstate(invalid="ignore"):
            entropy = -np.where(p.prob > 0, p.prob * p.log, 0.0).sum(axis=1)
        excess, lift = _excess(p), self._lift * p.prob.sum(axis=1)
        slack = RELATIVE_SLACK * (distance + np.abs(entropy) + np.abs(excess) + lift)
        limit = distance + entropy + excess + lift + slack
        limit = limit * (1 + 2 * self._fraction) + self._loss
        with np.errstate(over="ignore"):
            above: Float32Array = np.nextafter(limit.astype(np.float32), np.float32(np.inf))
        return above


def _excess(scores: Scores) -> FloatArray:
    """Σq − 1 without cancellation: nearly 0, but not for scores that came in float32."""
    top = scores.log.argmax(axis=1)[:, None]
    rest = scores.prob.copy()
    np.put_along_axis(rest, top, 0.0, axis=1)
    return np.asarray(
        np.expm1(np.take_along_axis(scores.log, top, axis=1))[:, 0] + rest.sum(axis=1)
    )
