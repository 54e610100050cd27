"""The distance between two balancing scores, defined once, in float64 log space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: What is lost to rounding, relative to the distance: the true loss is below 1e-12.
RELATIVE_SLACK = 1e-11

#: Below this ratio of probabilities exp(r) - 1 - r is summed as a series (see `_kl_term`).
_SERIES_BELOW = 0.0625
_SERIES = tuple(1.0 / float(np.prod(np.arange(1, n + 1), dtype=np.float64)) for n in range(2, 10))

#: Up to here all terms are computed together, beyond label by label.
_TERMS_AT_ONCE = 1 << 19

#: An l2 distance below this was squared into numbers too small for float64.
_UNDERFLOW = 1e-150


@dataclass(frozen=True)
class Scores:
    """Balancing scores of some examples, as log-probabilities and as probabilities."""

    log: FloatArray  # [n, m]
    prob: FloatArray  # [n, m]
    factors: Any = None  # a named tuple of arrays [n, …] that an engine prepared

    @classmethod
    def from_log(cls, log: FloatArray) -> Scores:
        return cls(log, np.exp(log))

    def __len__(self) -> int:
        return int(self.log.shape[0])

    def take(self, rows: NDArray[np.intp] | IntArray | slice) -> Scores:
        """Some of the examples; a slice copies nothing."""
        factors = self.factors and self.factors.take(rows)
        return Scores(self.log[rows], self.prob[rows], factors)

    def bare(self) -> Scores:
        return Scores(self.log, self.prob)

    def upright(self) -> Scores:
        """As [n, 1, m], to be measured against candidates [c, m] or [n, c, m]."""
        return Scores(self.log[:, None], self.prob[:, None])

    def column(self, label: int) -> Scores:
        return Scores(self.log[..., label], self.prob[..., label])


class ScoresOfRows(Scores):
    """Some rows of scores, of which only the factors are copied; the rest waits until asked."""

    def __init__(self, whole: Scores, rows: IntArray, factors: Any = None) -> None:
        self.__dict__.update(whole=whole, rows=rows, factors=factors)

    whole: Scores
    rows: IntArray

    @cached_property
    def log(self) -> FloatArray:  # type: ignore[override]
        return self.whole.log[self.rows]

    @cached_property
    def prob(self) -> FloatArray:  # type: ignore[override]
        return self.whole.prob[self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: NDArray[np.intp] | IntArray | slice) -> Scores:
        return self.whole.bare().take(self.rows[rows])

    def bare(self) -> Scores:
        return ScoresOfRows(self.whole, self.rows)


class ScoresOnDemand(Scores):
    """Scores that are read by position when they are to be measured."""

    def __init__(self, n: int, read: Callable[[IntArray], Scores]) -> None:
        self.__dict__.update(n=n, read=read)

    n: int
    read: Callable[[IntArray], Scores]

    def __len__(self) -> int:
        return self.n

    def take(self, rows: NDArray[np.intp] | IntArray | slice) -> Scores:
        rows = np.asarray(rows)
        flat = self.read(rows.ravel())
        shape = (*rows.shape, flat.log.shape[1])
        return Scores(flat.log.reshape(shape), flat.prob.reshape(shape))


def _lp_term(p: Scores, q: Scores) -> FloatArray:
    return np.abs(p.prob - q.prob)


def _kl_term(p: Scores, q: Scores) -> FloatArray:
    """p·log(p/q) + q − p: one label's share of KL(p‖q), where no large terms cancel."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = q.log - p.log
        series = ratio * _SERIES[-1]
        for coefficient in _SERIES[-2:0:-1]:
            series += coefficient
            series *= ratio
        series += _SERIES[0]
        series *= ratio
        series *= ratio
        series *= p.prob
        term = ratio * p.prob
        np.subtract(q.prob - p.prob, term, out=term)
        np.abs(ratio, out=ratio)
        np.copyto(term, series, where=ratio < _SERIES_BELOW)
    np.copyto(term, q.prob, where=p.prob <= 0)
    return np.asarray(term)


def _accumulate(p: Scores, q: Scores, term: _Term, fold: np.ufunc) -> FloatArray:
    """Fold the terms of all labels from first to last: in this order whatever the shapes."""
    if np.prod(np.broadcast_shapes(p.log.shape, q.log.shape)) <= _TERMS_AT_ONCE:
        return np.array(fold.accumulate(term(p, q), axis=-1)[..., -1])
    total = term(p.column(0), q.column(0))
    for label in range(1, p.log.shape[-1]):
        total = fold(total, term(p.column(label), q.column(label)))
    return total


def _l2(p: Scores, q: Scores) -> FloatArray:
    distance: FloatArray = np.sqrt(_accumulate(p, q, _lp_squared, np.add))
    tiny = distance < _UNDERFLOW
    if tiny.any():
        shape = (*distance.shape, p.log.shape[-1])
        gaps = np.broadcast_to(p.prob, shape)[tiny] - np.broadcast_to(q.prob, shape)[tiny]
        largest = np.abs(gaps).max(axis=-1, keepdims=True)
        scaled = np.divide(gaps, largest, out=np.zeros_like(gaps), where=largest > 0)
        squares = np.add.accumulate(scaled * scaled, axis=-1)[..., -1]
        distance[tiny] = largest[:, 0] * np.sqrt(squares)
    return distance


def _lp_squared(p: Scores, q: Scores) -> FloatArray:
    return np.square(p.prob - q.prob)


_Term = Callable[[Scores, Scores], FloatArray]


@dataclass(frozen=True)
class Metric:
    """A distance between scores: terms of the labels, folded into one number."""

    name: str
    term: _Term  # the least that one label adds to the distance
    fold: np.ufunc
    order: float | None  # the p of Lp, None for KL

    def distance(self, p: Scores, q: Scores) -> FloatArray:
        """Distances of scores whose leading axes broadcast."""
        return _l2(p, q) if self.order == 2 else _accumulate(p, q, self.term, self.fold)

    def key(self, scores: Scores) -> FloatArray:
        """The numbers the metric tells apart: scores with equal keys are at no distance."""
        return scores.log if self.order is None else scores.prob


METRICS: dict[str, Metric] = {
    "l1": Metric("l1", _lp_term, np.add, 1.0),
    "l2": Metric("l2", _lp_term, np.add, 2.0),
    "linf": Metric("linf", _lp_term, np.maximum, np.inf),
    "kl": Metric("kl", _kl_term, np.add, None),
}


def get_metric(name: str) -> Metric:
    """The metric of that name; an unknown name is answered with the known ones."""
    return METRICS[check_choice("metric", name, METRICS)]


def pair_distances(metric: str, anchors: FloatArray, candidates: FloatArray) -> FloatArray:
    """Distances from anchors to candidates, both log-scores; leading axes broadcast.

    KL is KL(anchor‖candidate), infinite where the candidate lacks a label the anchor has.

    >>> p, q = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> pair_distances("l1", p, q)
    array([0.5])
    """
    p = Scores.from_log(np.asarray(anchors, dtype=np.float64))
    q = Scores.from_log(np.asarray(candidates, dtype=np.float64))
    return get_metric(metric).distance(p, q)
