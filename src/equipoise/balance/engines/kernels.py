"""Distances of whole blocks in float32, each with a bound on its error.

`upper` gives the largest distance that a value can stand for, `limit` the largest value that a
candidate within some distance can have. Between the two nothing is lost.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import RELATIVE_SLACK, FloatArray, IntArray, Metric, Scores

Float32Array = NDArray[np.float32]

PADDING = 16  # candidates come in multiples of this
_ROUNDING = float(np.finfo(np.float32).eps)
_FAR = 1e30  # the value of padding, and of −log 0
_TINY = 1e-37
_SATURATED = 0.9


class Factors(NamedTuple):
    """Anchors as the kernel of a metric takes them; the same for all candidates."""

    values: Float32Array  # [n, labels or labels + 1]
    sizes: FloatArray  # [n, …] what the error bounds need
    corner: IntArray  # [n] the label whose corner of the simplex is near, or −1
    beyond: Float32Array  # [n] the factor of that label

    def take(self, rows: IntArray | slice) -> Factors:
        return Factors(self.values[rows], self.sizes[rows], self.corner[rows], self.beyond[rows])


def prepare(metric: Metric, anchors: Scores) -> Scores:
    """Anchors with the factors of their metric's kernel; one preparation serves all labels."""
    if anchors.factors is not None:
        return anchors
    factors = _kl_factors(anchors) if metric.order is None else _lp_factors(metric, anchors)
    return Scores(anchors.log, anchors.prob, factors)


_NEGLIGIBLE = 1e-35  # smaller probabilities count as 0 in the factors of KL
_DECIDERS = 64  # candidates that tell whether scores are flat
_LONGEST = 1e6  # if no −log q is larger, neglecting them costs less than 1e-28 a label


def _kl_factors(anchors: Scores) -> Factors:
    n, m = anchors.log.shape
    factors = np.ones((n, m + 1), dtype=np.float32)
    factors[:, :-1] = np.where(anchors.prob < _NEGLIGIBLE, 0.0, anchors.prob)
    sizes = np.stack([_entropy(anchors), _excess(anchors), _peakedness(anchors)], axis=1)
    return Factors(factors, sizes, np.full(n, -1), np.zeros(n, dtype=np.float32))


class KLKernel:
    """KL(p‖q) = ⟨p, b − log q⟩ + Σq − H(p) − (1 + b)·Σp for any constant b.

    With b = 0 float32 errs by a fraction of H(p) + KL: little where scores are peaked. With
    b = −log m it errs by one of Σ p·|log(m·p)| + KL: little where they are flat.
    """

    combine = "dot"  # how factors and matrix make values

    def __init__(self, candidates: Scores) -> None:
        n, m = candidates.log.shape
        excess = _excess(candidates)
        some = candidates.take(slice(None, None, -(-n // _DECIDERS)))
        self._flat = bool(_peakedness(some).mean() < _entropy(some).mean() / 2)
        # Scores in float32 may be a rounding error above 1: then 0 is not quite enough.
        self._base = -np.log(m) if self._flat else max(0.0, float(candidates.log.max()))
        self.matrix = _padded(m + 1, n)
        self.matrix[:m, n:] = 0.0
        # Whether `upper` holds; if not, distances must be measured.
        self.bounded = bool(candidates.log.min() > -_LONGEST)
        lengths = np.empty((n, m), dtype=np.float32)
        with np.errstate(over="ignore"):
            np.subtract(self._base, candidates.log, out=lengths, casting="same_kind")
        self.matrix[:m, :n] = (lengths if self.bounded else np.minimum(lengths, _FAR)).T
        self.matrix[m, :n] = excess
        self.corner_rows = self.corner_squares = self.matrix[:0]  # no anchor needs them
        # Rounding of both factors, of m + 1 products and of their sum.
        self._fraction = 0.55 * (m + 6) * _ROUNDING
        self._excess = float(np.abs(excess).max())
        self._loss = 4 * self._fraction * self._excess + m * 1e-28 + _TINY

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


def _lp_factors(metric: Metric, anchors: Scores) -> Factors:
    n, m = anchors.prob.shape
    top = anchors.prob.argmax(axis=1)
    corner = np.where(anchors.prob[np.arange(n), top] > _SATURATED, top, -1)
    near = np.flatnonzero(corner >= 0)
    beyond = np.zeros(n)
    beyond[near] = anchors.prob[near, top[near]] - 1.0  # exact, as both are near 1
    seen = anchors.prob.copy()
    seen[near, top[near]] = beyond[near]
    sizes = np.linalg.norm(seen, ord=metric.order, axis=1) * (1 + RELATIVE_SLACK)
    if metric.name != "l2":
        return Factors(seen.astype(np.float32), sizes, corner, beyond.astype(np.float32))
    factors = np.empty((n, m + 1), dtype=np.float32)
    factors[:, :m] = -2 * seen
    factors[near, top[near]] = 0.0  # this label and the squares come from the corner's own rows
    factors[:, m] = corner < 0
    return Factors(factors, sizes, corner, (-2 * beyond).astype(np.float32))


class LpKernel:
    """Lp distances of probabilities, seen from the corner of the simplex the anchor is near.

    Two saturated scores differ only in their distances from that corner, which float32 holds
    to seven digits: of the corner's label q − 1 is taken, not q. `corner_rows` then replace a
    label's row of the matrix, and `corner_squares` the row of squares.
    """

    bounded = True

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        n, m = candidates.prob.shape
        self._squared = metric.name == "l2"
        self.combine = "dot" if self._squared else metric.name
        self._fraction = 0.55 * (m + 8) * _ROUNDING
        self._candidates = candidates
        self.matrix = _padded(m + self._squared, n)
        self.matrix[:m, :n] = candidates.prob.T
        if self._squared:
            self.matrix[:m, n:] = 0.0
            self.matrix[m, :n] = (candidates.prob**2).sum(axis=1)

    @cached_property
    def corner_rows(self) -> Float32Array:
        n, m = self._candidates.prob.shape
        rows = _padded(m, n, 0.0 if self._squared else _FAR)
        rows[:, :n] = (self._candidates.prob - 1.0).T
        return rows

    @cached_property
    def corner_squares(self) -> Float32Array:
        prob = self._candidates.prob
        top = prob.argmax(axis=1)[:, None]
        largest = np.take_along_axis(prob, top, axis=1)
        rest = prob.copy()
        np.put_along_axis(rest, top, 0.0, axis=1)
        # Without label c: all but the largest, which stands in unless c is the largest.
        squares = (rest**2).sum(axis=1, keepdims=True)
        others = squares + (largest**2 - prob**2)
        np.put_along_axis(others, top, squares, axis=1)
        rows = _padded(prob.shape[1], len(prob))
        rows[:, : len(prob)] = (others + np.square(prob - 1.0)).T
        return rows

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


Kernel = KLKernel | LpKernel


def near_limit(kernel: Kernel, sizes: FloatArray, upper: FloatArray) -> Float32Array:
    """The largest float32 value that a candidate within the distance `upper` can have."""
    with np.errstate(over="ignore"):
        limit = kernel.limit(sizes, upper).astype(np.float32)
    return np.asarray(np.nextafter(limit, np.float32(np.inf)))


def make_kernel(metric: Metric, candidates: Scores) -> Kernel:
    return KLKernel(candidates) if metric.order is None else LpKernel(metric, candidates)


def _padded(rows: int, n: int, value: float = _FAR) -> Float32Array:
    return np.full((rows, -(-n // PADDING) * PADDING), value, dtype=np.float32)


def _entropy(scores: Scores) -> FloatArray:
    return -_mean(scores, scores.log)


def _peakedness(scores: Scores) -> FloatArray:
    """Σ p·|log(m·p)|: 0 for a uniform score."""
    return _mean(scores, np.abs(scores.log + np.log(scores.log.shape[1])))


def _mean(scores: Scores, values: FloatArray) -> FloatArray:
    """Σ p·value of each row, where 0 times infinity is 0."""
    with np.errstate(invalid="ignore"):
        total: FloatArray = np.einsum("ij,ij->i", scores.prob, values)
    lost = np.flatnonzero(np.isnan(total))
    if len(lost):
        finite = np.where(scores.prob[lost] > 0, values[lost], 0.0)
        total[lost] = np.einsum("ij,ij->i", scores.prob[lost], finite)
    return total


def _excess(scores: Scores) -> FloatArray:
    """Σq − 1 without cancellation: nearly 0, but not for scores that came in float32."""
    rows = np.arange(len(scores))
    top = scores.log.argmax(axis=1)
    total = scores.prob.sum(axis=1) - 1
    # Where one label has nearly all, add up what the others have.
    peaked = np.flatnonzero(scores.prob[rows, top] > 0.5)
    rest = scores.prob[peaked]
    rest[np.arange(len(peaked)), top[peaked]] = 0.0
    total[peaked] = np.expm1(scores.log[peaked, top[peaked]]) + rest.sum(axis=1)
    return np.asarray(total)
