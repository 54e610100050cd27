"""Distances of whole blocks in float32, each with a bound on its error.

A kernel turns anchors and candidates into float32 factors whose product (or Lp distance) is
fast to compute, and knows what that value can and cannot say about the true distance:
`upper` gives the largest distance a value can stand for, `limit` the largest value that a
candidate within some distance can have. Between the two nothing is lost.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import RELATIVE_SLACK, FloatArray, IntArray, Metric, Scores

Float32Array = NDArray[np.float32]

PADDING = 16  # candidates come in multiples of this
_ROUNDING = float(np.finfo(np.float32).eps)
_FAR = np.float32(1e30)  # the value of padding, and of −log 0
_TINY = 1e-37
_SATURATED = 0.9


class Kernel(Protocol):
    """Values of blocks and what they prove."""

    combine: str  # "dot", "l1" or "linf": how factors and matrix make values
    bounded: bool  # whether `upper` holds; if not, distances must be measured

    def matrix(self, group: int) -> Float32Array: ...

    def upper(self, sizes: FloatArray, value: Float32Array) -> FloatArray: ...

    def limit(self, sizes: FloatArray, distance: FloatArray) -> FloatArray: ...


def prepare(metric: Metric, anchors: Scores) -> Scores:
    """Anchors with the factors of their metric's kernel: (group, factors, sizes).

    They do not depend on the candidates, so one preparation serves all labels.
    """
    if anchors.factors is not None:
        return anchors
    factors = _kl_factors(anchors) if metric.order is None else _lp_factors(metric, anchors)
    return Scores(anchors.log, anchors.prob, factors)


_Factors = tuple[IntArray, Float32Array, FloatArray]
_NEGLIGIBLE = 1e-35  # smaller probabilities count as 0 in the factors of KL
_LONGEST = 1e6  # if no −log q is larger, neglecting them costs less than 1e-28 a label


def _kl_factors(anchors: Scores) -> _Factors:
    n, m = anchors.log.shape
    factors = np.ones((n, m + 1), dtype=np.float32)
    factors[:, :-1] = np.where(anchors.prob < _NEGLIGIBLE, 0.0, anchors.prob)
    sizes = np.stack([_entropy(anchors), _excess(anchors), _peakedness(anchors)], axis=1)
    return np.zeros(n, dtype=np.int64), factors, sizes


class KLKernel:
    """KL(p‖q) = ⟨p, b − log q⟩ + Σq − H(p) − (1 + b)·Σp for any constant b.

    With b = 0 no product is negative, and float32 errs by a fraction of H(p) + KL: little
    where scores are peaked. With b = −log m it errs by a fraction of Σ p·|log(m·p)| + KL:
    little where they are flat. The candidates decide.
    """

    combine = "dot"

    def __init__(self, candidates: Scores) -> None:
        n, m = candidates.log.shape
        excess = _excess(candidates)
        self._flat = bool(_peakedness(candidates).mean() < _entropy(candidates).mean() / 2)
        # Scores in float32 may be a rounding error above 1: then 0 is not quite enough.
        self._base = -np.log(m) if self._flat else max(0.0, float(candidates.log.max()))
        self._matrix = _padded(m + 1, n)
        self._matrix[:m, n:] = 0.0
        with np.errstate(over="ignore"):
            self._matrix[:m, :n] = np.minimum(self._base - candidates.log.T, _FAR)
        self._matrix[m, :n] = excess
        # Rounding of both factors, of m + 1 products and of their sum.
        self._fraction = 0.55 * (m + 6) * _ROUNDING
        self._excess = float(np.abs(excess).max())
        self._loss = 4 * self._fraction * self._excess + m * 1e-28 + _TINY
        self.bounded = bool(candidates.log.min() > -_LONGEST)

    def matrix(self, group: int) -> Float32Array:
        return self._matrix

    def _offset(self, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What lies between product and distance, and its own rounding."""
        entropy, excess = sizes[:, 0], sizes[:, 1]
        base = self._base * (1 + excess)
        slack = RELATIVE_SLACK * (np.abs(entropy) + np.abs(excess) + np.abs(base))
        return entropy + excess + base, slack

    def _error(self, sizes: FloatArray, distance: FloatArray) -> FloatArray:
        """How far a float32 product can be off, for candidates within some distance."""
        if self._flat:
            # Σ p·|log(p/q)| is at most KL + √(2·KL), by Pinsker.
            terms = sizes[:, 2] + distance + np.sqrt(2 * distance) + 2 * self._excess
            terms = terms + 2 * np.abs(sizes[:, 1])
        else:
            terms = np.abs(sizes[:, 0] + sizes[:, 1] + self._base * (1 + sizes[:, 1])) + distance
        return np.asarray(self._fraction * terms * 1.01 + self._loss)

    def upper(self, sizes: FloatArray, value: Float32Array) -> FloatArray:
        offset, slack = self._offset(sizes)
        seen = value.astype(np.float64) - offset + slack
        # The error depends on the distance: bound it roughly, then with the rough bound.
        rough = np.maximum(seen, 0.0) + 2 * self._error(sizes, np.abs(seen) + 1.0)
        return np.asarray(np.maximum(seen + self._error(sizes, rough), 0.0))

    def limit(self, sizes: FloatArray, distance: FloatArray) -> FloatArray:
        offset, slack = self._offset(sizes)
        largest = distance * (1 + RELATIVE_SLACK) + offset + slack
        return np.asarray(largest + self._error(sizes, distance))


def _lp_factors(metric: Metric, anchors: Scores) -> _Factors:
    n, m = anchors.prob.shape
    top = anchors.prob.argmax(axis=1)
    group = np.where(anchors.prob[np.arange(n), top] > _SATURATED, top, -1)
    seen = anchors.prob.copy()
    near = np.flatnonzero(group >= 0)
    seen[near, top[near]] = np.expm1(anchors.log[near, top[near]])  # −(1 − p), all digits kept
    length = np.linalg.norm(seen, ord=metric.order, axis=1) * (1 + RELATIVE_SLACK)
    if metric.name != "l2":
        return group, seen.astype(np.float32), length
    factors = np.ones((n, m + 1), dtype=np.float32)
    factors[:, :-1] = -2 * seen
    return group, factors, length


class LpKernel:
    """Lp distances of probabilities, seen from the corner of the simplex the anchor is near.

    Two saturated scores differ only in their distances from that corner, which float32 holds
    to seven digits however small they are. Anchors are grouped by corner; −1 is the origin.
    """

    bounded = True

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        n, m = candidates.prob.shape
        self._squared = metric.name == "l2"
        self.combine = "dot" if self._squared else metric.name
        self._fraction = 0.55 * (m + 8) * _ROUNDING
        self._candidates = candidates
        self._base = _padded(m + self._squared, n)
        self._base[:m, :n] = candidates.prob.T
        if self._squared:
            self._base[:m, n:] = 0.0
            self._base[m, :n] = (candidates.prob**2).sum(axis=1)

    def matrix(self, group: int) -> Float32Array:
        if group < 0:
            return self._base
        n, m = self._candidates.prob.shape
        matrix = self._base.copy()
        matrix[group, :n] = short = np.expm1(self._candidates.log[:, group])
        if self._squared:
            rest = self._candidates.prob.copy()
            rest[:, group] = short
            matrix[m, :n] = (rest**2).sum(axis=1)
        return matrix

    def upper(self, sizes: FloatArray, value: Float32Array) -> FloatArray:
        value64 = value.astype(np.float64)
        if not self._squared:
            most = (value64 + 2 * self._fraction * sizes) * (1 + 2 * self._fraction)
            return np.asarray(most + _TINY)
        # The candidate's own length is at most the anchor's plus the distance: bound it twice.
        square = np.maximum(value64 + sizes**2, 0.0)
        root = np.sqrt(self._fraction)
        rough = (np.sqrt(square) + 2 * root * sizes) / (1 - root) + _TINY**0.5
        return np.asarray(np.sqrt(square + self._fraction * (2 * sizes + rough) ** 2 + _TINY))

    def limit(self, sizes: FloatArray, distance: FloatArray) -> FloatArray:
        if not self._squared:
            return np.asarray(distance * (1 + self._fraction) + 2 * self._fraction * sizes + _TINY)
        square = (distance * (1 + RELATIVE_SLACK)) ** 2
        error = self._fraction * (2 * sizes + distance) ** 2
        return np.asarray(square - sizes**2 * (1 - 4 * RELATIVE_SLACK) + error + _TINY)


def make_kernel(metric: Metric, candidates: Scores) -> Kernel:
    """The kernel of a metric over some candidates."""
    return KLKernel(candidates) if metric.order is None else LpKernel(metric, candidates)


def _padded(rows: int, n: int) -> Float32Array:
    return np.full((rows, -(-n // PADDING) * PADDING), _FAR, dtype=np.float32)


def _entropy(scores: Scores) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return np.asarray(-np.where(scores.prob > 0, scores.prob * scores.log, 0.0).sum(axis=1))


def _peakedness(scores: Scores) -> FloatArray:
    """Σ p·|log(m·p)|: 0 for a uniform score."""
    with np.errstate(invalid="ignore"):
        away = np.abs(scores.log + np.log(scores.log.shape[1]))
        return np.asarray(np.where(scores.prob > 0, scores.prob * away, 0.0).sum(axis=1))


def _excess(scores: Scores) -> FloatArray:
    """Σq − 1 without cancellation: nearly 0, but not for scores that came in float32."""
    top = scores.log.argmax(axis=1)[:, None]
    rest = scores.prob.copy()
    np.put_along_axis(rest, top, 0.0, axis=1)
    return np.asarray(
        np.expm1(np.take_along_axis(scores.log, top, axis=1))[:, 0] + rest.sum(axis=1)
    )
