"""Engines that look at some candidates only, and prove that no other can be nearer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from equipoise.balance.distances import RELATIVE_SLACK, FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine, Shortlist, combine_block
from equipoise.balance.engines.kernels import (
    Factors,
    Float32Array,
    make_kernel,
    near_limit,
    prepare,
)
from equipoise.balance.engines.nearest import DirectEngine, Nearest, rank_table

_ROUNDING = float(np.finfo(np.float32).eps)
_LEAST_LOG = -1e30
_ROWS_AT_ONCE = 1 << 15


def partition(scores: Scores, size: int) -> tuple[IntArray, IntArray]:
    """Rows in an order whose runs are boxes of at most `size`, and where each run starts.

    Split in the middle of the widest label: peaked scores crowd in corners.
    """
    tree = cKDTree(scores.prob, leafsize=size, balanced_tree=False)
    starts, waiting = [], [tree.tree]
    while waiting:
        node = waiting.pop()
        if node.split_dim == -1:
            starts.append(node.start_idx)
        else:
            waiting += [node.lesser, node.greater]
    return tree.indices.astype(np.int64), np.append(np.sort(starts), len(scores))


Box = tuple[Scores, Scores]  # smallest and largest score of each label over a set of examples


def _box_runs(scores: Scores, starts: IntArray) -> Box:
    """Boxes [n, m] around runs of rows that begin at `starts`."""
    low, high = np.minimum.reduceat, np.maximum.reduceat
    return (
        Scores(low(scores.log, starts, axis=0), low(scores.prob, starts, axis=0)),
        Scores(high(scores.log, starts, axis=0), high(scores.prob, starts, axis=0)),
    )


class BoxBounds:
    """The least distance from anchors, or boxes of anchors, to boxes of candidates."""

    def __init__(self, metric: Metric, boxes: Box) -> None:
        self._metric = metric
        self._low, self._high = _edges(boxes[0].prob, boxes[1].prob)  # [m, cells]
        if metric.order is None:
            self._log_low, self._log_high = _edges(boxes[0].log, boxes[1].log)

    def __len__(self) -> int:
        return int(self._low.shape[1])

    def from_points(self, anchors: Scores, cells: IntArray | slice) -> Float32Array:
        """Lower bounds [n, cells] on the distances of single anchors, rounding taken off."""
        p = anchors.prob.astype(np.float32).T
        if self._metric.order is not None:
            return self._lp(p, p, cells)
        log = np.maximum(anchors.log, _LEAST_LOG).astype(np.float32).T
        with np.errstate(invalid="ignore"):
            entropy = -np.where(anchors.prob > 0, anchors.prob * anchors.log, 0.0).sum(axis=1)
        return self._kl(p, p, log, log, cells, 2 * anchors.prob.sum(axis=1) + entropy)

    def from_boxes(self, boxes: Box) -> Float32Array:
        """Lower bounds [n, cells] on the distances of all anchors in a box."""
        low, high = _edges(boxes[0].prob, boxes[1].prob)
        if self._metric.order is not None:
            return self._lp(low, high, slice(None))
        weight = 2 * boxes[1].prob.sum(axis=1) + len(low) / np.e  # p·|log p| is at most 1/e
        logs = _edges(boxes[0].log, boxes[1].log)
        return self._kl(low, high, *logs, slice(None), weight)

    def _kl(
        self,
        low: Float32Array,
        high: Float32Array,
        log_low: Float32Array,
        log_high: Float32Array,
        cells: IntArray | slice,
        weight: FloatArray,
    ) -> Float32Array:
        """Each label adds q − p − p·(log q − log p), for the nearest p and q of two boxes.

        Rounding can have added to it: its 2m summands are at most 4 + KL together, and rounding
        p and log p moves them by at most `weight`, which is Σ p·(2 + |log p|), half a dozen times
        the float32 unit.
        """
        total = np.zeros((low.shape[1], self._low[:1, cells].shape[1]), dtype=np.float32)
        gap = np.empty_like(total)
        for label in range(len(low)):
            near, far = self._low[label, cells], self._high[label, cells]
            log_near, log_far = self._log_low[label, cells], self._log_high[label, cells]
            p, log_p = low[label, :, None], log_low[label, :, None]
            if high is not low:
                p = np.minimum(np.maximum(p, near), high[label, :, None])
                log_p = np.minimum(np.maximum(log_p, log_near), log_high[label, :, None])
            np.maximum(p, near, out=gap)
            np.minimum(gap, far, out=gap)
            gap -= p
            total += gap
            np.maximum(log_p, log_near, out=gap)
            np.minimum(gap, log_far, out=gap)
            gap -= log_p
            gap *= p
            total -= gap
        lost = 4 * (len(low) + 6)
        total *= np.float32(1 - lost * _ROUNDING)
        total -= (_ROUNDING * (lost + 4 * weight)).astype(np.float32)[:, None]
        return np.maximum(total, np.float32(0.0), out=total)

    def _lp(self, low: Float32Array, high: Float32Array, cells: IntArray | slice) -> Float32Array:
        total = np.zeros((low.shape[1], self._low[:1, cells].shape[1]), dtype=np.float32)
        gap, other = np.empty_like(total), np.empty_like(total)
        for label in range(len(low)):
            np.subtract(self._low[label, cells], high[label, :, None], out=gap)
            np.subtract(low[label, :, None], self._high[label, cells], out=other)
            np.maximum(gap, other, out=gap)
            np.maximum(gap, 0.0, out=gap)
            if self._metric.name == "l2":
                gap *= gap
            self._metric.fold(total, gap, out=total)
        if self._metric.name == "l2":
            np.sqrt(total, out=total)
        loss = np.float32(4 * len(low) * _ROUNDING)
        return np.asarray(np.maximum(total * (1 - loss) - loss, 0.0))


def _edges(low: FloatArray, high: FloatArray) -> tuple[Float32Array, Float32Array]:
    """Edges [labels, cells] in float32, rounded away from the box."""

    def outward(edges: FloatArray, direction: float) -> Float32Array:
        with np.errstate(over="ignore"):
            near = np.maximum(edges.T, _LEAST_LOG).astype(np.float32)
        return np.ascontiguousarray(np.nextafter(near, np.float32(direction)))

    return outward(low, -np.inf), outward(high, np.inf)


_CELL = 512
_GROUP = 512
_SCOUTS = 4  # anchors of a group whose nearest cells are looked at first
_VISITS_AT_ONCE = 1 << 20


class CellsEngine:
    """Candidates in cells, anchors in groups, both boxes of near scores.

    No anchor is held against a cell whose box is farther than what a first look bounds.
    """

    name = "cells"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric, self.candidates = metric, candidates
        self._order, self._starts = partition(candidates, _CELL)
        arranged = candidates.take(self._order)
        self._bounds = BoxBounds(metric, _box_runs(arranged, self._starts[:-1]))
        self._kernel = make_kernel(metric, arranged)
        self._visits = len(self._bounds) / 4  # cells an anchor is held against: a first guess

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        if not self._kernel.bounded:
            return BlockedEngine(self.metric, self.candidates).nearest(anchors, k)
        result = Nearest.empty(len(anchors), k)
        shortlist = Shortlist(self.metric, anchors.bare(), self.candidates, k, result)
        anchors = prepare(self.metric, anchors)
        rows, starts = partition(anchors.bare(), _GROUP)
        first = 0
        while first < len(starts) - 1:
            # As many anchors as keep the list of visits short, going by the visits so far.
            at_once = int(min(_ROWS_AT_ONCE, _VISITS_AT_ONCE / max(self._visits, 1.0)))
            edges = starts[first : first + max(1, at_once // _GROUP) + 1]
            part = rows[edges[0] : edges[-1]]
            shortlist.add(part, *self._near(anchors.take(part), edges - edges[0], k))
            first += len(edges) - 1
        shortlist.rank()
        return result

    def _near(self, anchors: Scores, edges: IntArray, k: int) -> tuple[IntArray, IntArray]:
        """Pairs (row, candidate) that hold the k nearest of every anchor."""
        bare = anchors.bare()
        gaps = self._bounds.from_boxes(_box_runs(bare, edges[:-1]))
        scouts = edges[:-1, None] + np.diff(edges)[:, None] * np.arange(_SCOUTS) // _SCOUTS
        seen = self._bounds.from_points(bare.take(scouts.ravel()), slice(None))
        upper = np.empty(len(anchors))
        rows, cells = [], []
        for group, (start, stop) in enumerate(itertools.pairwise(edges)):
            here = anchors.take(slice(start, stop))
            first = np.unique(seen[group * _SCOUTS : (group + 1) * _SCOUTS].argmin(axis=1))
            limit = self._look(here, first, k)
            close = np.flatnonzero(gaps[group] <= limit.max())
            least = self._bounds.from_points(here.bare(), close)
            second = np.setdiff1d(close[np.unique(least.argmin(axis=1))], first)
            if len(second):
                limit = np.minimum(limit, self._look(here, second, k))
            near = least <= (limit * (1 + 1e-6)).astype(np.float32)[:, None]
            row, cell = np.divmod(np.flatnonzero(near), len(close))
            rows.append(row + start)
            cells.append(close[cell].astype(np.int32))
            upper[start:stop] = limit
        self._visits = sum(map(len, rows)) / len(anchors)
        visits = np.concatenate(rows), np.concatenate(cells)
        return self._visit(anchors.factors, *visits, upper, k)

    def _look(self, anchors: Scores, cells: IntArray, k: int) -> FloatArray:
        """An upper bound on the k-th distance of each anchor, from all candidates of cells."""
        columns = np.concatenate([np.arange(*self._starts[cell : cell + 2]) for cell in cells])
        if len(columns) < k:
            return np.full(len(anchors), np.inf)
        values = self._values(anchors.factors, columns)
        least = values.min(axis=1) if k == 1 else np.partition(values, k - 1, axis=1)[:, k - 1]
        return self._kernel.upper(anchors.factors.sizes, least)

    def _values(self, anchors: Factors, columns: IntArray | slice) -> Float32Array:
        width = columns.stop - columns.start if isinstance(columns, slice) else len(columns)
        values = np.empty((len(anchors.values), width), dtype=np.float32)
        combine_block(self._kernel, anchors, columns, values)
        return values

    def _visit(
        self, factors: Factors, rows: IntArray, cells: NDArray[np.int32], upper: FloatArray, k: int
    ) -> tuple[IntArray, IntArray]:
        """Hold each cell against the anchors that it can be near; pairs in order of row."""
        sizes = factors.sizes
        limit = near_limit(self._kernel, sizes, upper)
        order = np.argsort(cells, kind="stable")
        rows, cells = rows[order], cells[order]
        cuts = np.searchsorted(cells, np.arange(len(self._starts)))
        found: list[tuple[IntArray, IntArray, Float32Array]] = []
        for cell in np.flatnonzero(np.diff(cuts)):
            some = rows[cuts[cell] : cuts[cell + 1]]
            start, stop = self._starts[cell : cell + 2]
            values = self._values(factors.take(some), slice(start, stop))
            if k == 1:  # what has been seen may already be nearer than the first look
                limit[some] = np.minimum(limit[some], self._raise(sizes[some], values.min(axis=1)))
            which, column = np.divmod(np.flatnonzero(values <= limit[some, None]), values.shape[1])
            found.append((some[which], column + start, values[which, column]))
        row, column, value = (np.concatenate(part) for part in zip(*found, strict=True))
        order = np.lexsort((value, row))
        row, column, value = row[order], column[order], value[order]
        starts = np.searchsorted(row, np.arange(len(sizes)))
        kept = value <= self._raise(sizes, value[starts + k - 1])[row]
        return row[kept], self._order[column[kept]]

    def _raise(self, sizes: FloatArray, value: Float32Array) -> Float32Array:
        return near_limit(self._kernel, sizes, self._kernel.upper(sizes, value))


_WIDEST = 512
_DENORMAL = 1e-320  # below this floats have no relative precision
_OUT_OF_CACHE = 1 << 14  # candidates
_SQUARES_UNDERFLOW = 1e-150  # the tree squares differences; smaller ones are lost to it


class _WideningEngine(DirectEngine):
    """Looks at some candidates of each anchor, and at more where the rest may be as near."""

    def _search(
        self,
        propose: Callable[[Scores, int], tuple[IntArray, FloatArray]],
        anchors: Scores,
        order: IntArray,
        k: int,
        widest: int,
        result: Nearest,
    ) -> None:
        """`propose` gives some positions [n, w], and the least distance of all others [n]."""
        for start in range(0, len(order), _ROWS_AT_ONCE):
            rows, width = order[start : start + _ROWS_AT_ONCE], k + 1
            while len(rows) and width < len(self.candidates) and width <= widest:
                p = anchors.take(rows)
                table, bound = propose(p, width)
                found = rank_table(self.metric, p, self.candidates, table, k)
                proven = found.distances[:, -1] < bound
                result.put(rows[proven], Nearest(found.distances[proven], found.positions[proven]))
                rows = rows[~proven]
                width *= 4
            if len(rows):
                result.put(rows, DirectEngine.nearest(self, anchors.take(rows), k))


class LineEngine(_WideningEngine):
    """Sorts candidates by one label's probability and looks at a window around the anchor.

    Whatever lies outside the window differs from the anchor in that one label by at least what
    the window's edge does, and the metric is at least that label's term: this is the proof.
    Each anchor is looked up by its less likely label, where log-scores resolve best.
    """

    name = "line"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if candidates.log.shape[1] != 2:
            raise ValueError(f"engine 'line' needs two labels, not {candidates.log.shape[1]}")
        super().__init__(metric, candidates)
        columns = [candidates.column(label) for label in (0, 1)]
        self._orders = [np.argsort(metric.key(column), kind="stable") for column in columns]
        self._columns = [
            column.take(order) for column, order in zip(columns, self._orders, strict=True)
        ]

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        rarer = anchors.log[:, 1] < anchors.log[:, 0]
        for label in (0, 1):
            rows = np.flatnonzero(rarer == bool(label))
            rows = rows[np.argsort(anchors.log[rows, label])]  # neighbours share cache lines
            self._search(partial(self._window, label), anchors, rows, k, _WIDEST, result)
        return result

    def _window(self, label: int, anchors: Scores, reach: int) -> tuple[IntArray, FloatArray]:
        """Positions [n, 2·reach] around each anchor, and the least distance of all others."""
        n, p, column = len(self.candidates), anchors.column(label), self._columns[label]
        middle = np.searchsorted(self.metric.key(column), self.metric.key(p))
        places = middle[:, None] + np.arange(-reach - 1, reach + 1)  # an edge on either side
        inside = (places >= 0) & (places < n)
        places = np.clip(places, 0, n - 1)
        table = np.where(inside, self._orders[label][places], -1)[:, 1:-1]
        ends = [
            np.where(inside[:, end], self.metric.term(p, column.take(places[:, end])), np.inf)
            for end in (0, -1)
        ]
        return table, np.minimum(*ends) * (1 - RELATIVE_SLACK) - _DENORMAL


class KDTreeEngine(_WideningEngine):
    """One neighbour more than asked for: if that one is farther, the others are the nearest."""

    name = "kdtree"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.order is None:
            raise ValueError(f"engine 'kdtree' knows only Lp metrics, not {metric.name!r}")
        super().__init__(metric, candidates)
        self._tree = cKDTree(candidates.prob, balanced_tree=False)

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        order = np.arange(len(anchors))
        if len(self.candidates) > _OUT_OF_CACHE and len(anchors) > _ROWS_AT_ONCE:
            order, _ = partition(anchors.bare(), 64)  # neighbours walk the same branches
        self._search(self._neighbours, anchors, order, k, 64 * k, result)
        return result

    def _neighbours(self, p: Scores, width: int) -> tuple[IntArray, FloatArray]:
        far, table = self._tree.query(p.prob, k=width, p=self.metric.order)
        loss = _SQUARES_UNDERFLOW if self.metric.order == 2 else 0.0
        return table.astype(np.int64), far[:, -1] * (1 - RELATIVE_SLACK) - loss
