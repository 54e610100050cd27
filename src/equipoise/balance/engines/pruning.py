"""Engines that look at some candidates only, and prove that no other can be nearer.

A line for two labels, a tree for Lp over few labels, cells of near candidates for many.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

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

    Split in the middle of the widest label, not at the median: peaked scores crowd in corners,
    and boxes that leave the emptiness out are visited twenty times less.
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


@dataclass(frozen=True)
class Boxes:
    """Smallest and largest score of each label over sets of examples."""

    low: Scores  # [n, m]
    high: Scores  # [n, m]

    @classmethod
    def around(cls, scores: Scores, starts: IntArray) -> Boxes:
        """Boxes around runs of rows that begin at `starts`."""
        low, high = np.minimum.reduceat, np.maximum.reduceat
        return cls(
            Scores(low(scores.log, starts, axis=0), low(scores.prob, starts, axis=0)),
            Scores(high(scores.log, starts, axis=0), high(scores.prob, starts, axis=0)),
        )


class BoxBounds:
    """The least distance from anchors, or boxes of anchors, to boxes of candidates.

    Each label's term grows with the gap between p and q on either side, so the nearest points
    of two intervals give its least value; the terms of all labels together bound the distance.
    """

    def __init__(self, metric: Metric, boxes: Boxes) -> None:
        self._metric = metric
        self._low = _outward(boxes.low.prob, -np.inf)  # [m, cells]
        self._high = _outward(boxes.high.prob, np.inf)
        if metric.order is None:
            self._log_low = _outward(boxes.low.log, -np.inf)
            self._log_high = _outward(boxes.high.log, np.inf)

    def __len__(self) -> int:
        return int(self._low.shape[1])

    def from_points(self, anchors: Scores, cells: IntArray | slice) -> Float32Array:
        """Lower bounds [n, cells] on the distances of single anchors, rounding taken off."""
        if self._metric.order is not None:
            p = anchors.prob.astype(np.float32).T
            return self._lp(p, p, cells)
        # Each label adds q − p − p·(log q − log p), with q the score in the box nearest to p.
        p = anchors.prob.astype(np.float32)
        log = np.maximum(anchors.log, _LEAST_LOG).astype(np.float32)
        total = np.zeros((len(p), self._low[:1, cells].shape[1]), dtype=np.float32)
        nearest = np.empty_like(total)
        for label in range(p.shape[1]):
            column, log_column = p[:, label, None], log[:, label, None]
            np.maximum(column, self._low[label, cells], out=nearest)
            np.minimum(nearest, self._high[label, cells], out=nearest)
            nearest -= column
            total += nearest
            np.maximum(log_column, self._log_low[label, cells], out=nearest)
            np.minimum(nearest, self._log_high[label, cells], out=nearest)
            nearest -= log_column
            nearest *= column
            total -= nearest
        with np.errstate(invalid="ignore"):
            entropy = -np.where(anchors.prob > 0, anchors.prob * anchors.log, 0.0).sum(axis=1)
        return _without_rounding(total, p.shape[1], 2 * anchors.prob.sum(axis=1) + entropy)

    def from_boxes(self, boxes: Boxes) -> Float32Array:
        """Lower bounds [n, cells] on the distances of all anchors in a box."""
        low, high = _outward(boxes.low.prob, -np.inf), _outward(boxes.high.prob, np.inf)
        if self._metric.order is not None:
            return self._lp(low, high, slice(None))
        total = np.zeros((low.shape[1], len(self)), dtype=np.float32)
        log_low, log_high = (_outward(boxes.low.log, -np.inf), _outward(boxes.high.log, np.inf))
        for label in range(len(low)):
            edges = (low[label, :, None], high[label, :, None])
            log_edges = (log_low[label, :, None], log_high[label, :, None])
            p = np.minimum(np.maximum(edges[0], self._low[label]), edges[1])
            q = np.minimum(np.maximum(p, self._low[label]), self._high[label])
            log_p = np.minimum(np.maximum(log_edges[0], self._log_low[label]), log_edges[1])
            log_q = np.minimum(np.maximum(log_p, self._log_low[label]), self._log_high[label])
            total += (q - p) - p * (log_q - log_p)
        weight = 2 * boxes.high.prob.sum(axis=1) + len(low) / np.e  # p·|log p| is at most 1/e
        return _without_rounding(total, len(low), weight)

    def _lp(self, low: Float32Array, high: Float32Array, cells: IntArray | slice) -> Float32Array:
        total = np.zeros((low.shape[1], self._low[:1, cells].shape[1]), dtype=np.float32)
        gap, other = np.empty_like(total), np.empty_like(total)
        for label in range(len(low)):
            np.subtract(self._low[label, cells], high[label, :, None], out=gap)
            np.subtract(low[label, :, None], self._high[label, cells], out=other)
            np.maximum(gap, other, out=gap)
            np.maximum(gap, 0.0, out=gap)
            if self._metric.name == "l1":
                total += gap
            elif self._metric.name == "l2":
                gap *= gap
                total += gap
            else:
                np.maximum(total, gap, out=total)
        if self._metric.name == "l2":
            np.sqrt(total, out=total)
        loss = np.float32(4 * len(low) * _ROUNDING)
        return np.asarray(np.maximum(total * (1 - loss) - loss, 0.0))


def _without_rounding(total: Float32Array, n_labels: int, weight: FloatArray) -> Float32Array:
    """Take off what rounding can have added to a KL.

    Its 2m summands are at most 4 + KL together, and rounding p and log p moves them by at most
    `weight`, which is Σ p·(2 + |log p|), half a dozen times the float32 unit.
    """
    total *= np.float32(1 - 4 * (n_labels + 6) * _ROUNDING)
    total -= (_ROUNDING * (4 * (n_labels + 6) + 4 * weight)).astype(np.float32)[:, None]
    return np.maximum(total, np.float32(0.0), out=total)


def _outward(edges: FloatArray, direction: float) -> Float32Array:
    """Edges [labels, cells] in float32, rounded away from the box."""
    with np.errstate(over="ignore"):
        near = np.maximum(edges.T, _LEAST_LOG).astype(np.float32)
    return np.ascontiguousarray(np.nextafter(near, np.float32(direction)))


_CELL = 512
_GROUP = 512
_SCOUTS = 4  # anchors of a group whose nearest cells are looked at first
_VISITS_AT_ONCE = 1 << 20


class CellsEngine:
    """Candidates in cells, anchors in groups, both boxes of near scores.

    Cells around a group are searched first; that bounds the distance of every anchor's match,
    and no anchor is held against a cell whose box is farther away than this. The distance to a
    box is the metric's own, label by label, and so holds for KL as for Lp.
    """

    name = "cells"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        self.metric = metric
        self.candidates = candidates
        self._order, self._starts = partition(candidates, _CELL)
        arranged = candidates.take(self._order)
        self._bounds = BoxBounds(metric, Boxes.around(arranged, self._starts[:-1]))
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
            edges = starts[first : first + max(1, self._rows_at_once() // _GROUP) + 1]
            part = rows[edges[0] : edges[-1]]
            shortlist.add(part, *self._near(anchors.take(part), edges - edges[0], k))
            first += len(edges) - 1
        shortlist.rank()
        return result

    def _rows_at_once(self) -> int:
        """As many anchors as keep the list of visits short, going by the visits so far."""
        return int(min(_ROWS_AT_ONCE, _VISITS_AT_ONCE / max(self._visits, 1.0)))

    def _near(self, anchors: Scores, edges: IntArray, k: int) -> tuple[IntArray, IntArray]:
        """Pairs (row, candidate) that hold the k nearest of every anchor."""
        bare = anchors.bare()
        gaps = self._bounds.from_boxes(Boxes.around(bare, edges[:-1]))
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
        return self._visit(anchors, np.concatenate(rows), np.concatenate(cells), upper, k)

    def _look(self, anchors: Scores, cells: IntArray, k: int) -> FloatArray:
        """An upper bound on the k-th distance of each anchor, from all candidates of cells."""
        columns = np.concatenate([np.arange(*self._starts[cell : cell + 2]) for cell in cells])
        if len(columns) < k:
            return np.full(len(anchors), np.inf)
        factors = Factors(*anchors.factors)
        values = self._values(factors, columns)
        least = values.min(axis=1) if k == 1 else np.partition(values, k - 1, axis=1)[:, k - 1]
        return self._kernel.upper(factors.sizes, least)

    def _values(self, anchors: Factors, columns: IntArray | slice) -> Float32Array:
        width = columns.stop - columns.start if isinstance(columns, slice) else len(columns)
        values = np.empty((len(anchors.values), width), dtype=np.float32)
        combine_block(self._kernel, anchors, columns, values)
        return values

    def _visit(
        self,
        anchors: Scores,
        rows: IntArray,
        cells: NDArray[np.int32],
        upper: FloatArray,
        k: int,
    ) -> tuple[IntArray, IntArray]:
        """Hold each cell against the anchors that it can be near."""
        factors = Factors(*anchors.factors)
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
        return self._sift(row, self._order[column], value, sizes, k)

    def _raise(self, sizes: FloatArray, value: Float32Array) -> Float32Array:
        return near_limit(self._kernel, sizes, self._kernel.upper(sizes, value))

    def _sift(
        self, rows: IntArray, places: IntArray, values: Float32Array, sizes: FloatArray, k: int
    ) -> tuple[IntArray, IntArray]:
        """Drop what the k-th best value of each row rules out; put the rest in order of row."""
        order = np.lexsort((values, rows))
        rows, places, values = rows[order], places[order], values[order]
        starts = np.searchsorted(rows, np.arange(len(sizes)))
        kept = values <= self._raise(sizes, values[starts + k - 1])[rows]
        return rows[kept], places[kept]


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


_OUT_OF_CACHE = 1 << 14  # candidates
_SQUARES_UNDERFLOW = 1e-150  # the tree squares differences; smaller ones are lost to it


class KDTreeEngine:
    """One neighbour more than asked for: if that one is farther, the others are the nearest.

    Anchors whose last neighbours tie ask again for more, and in the end for all.
    """

    name = "kdtree"

    def __init__(self, metric: Metric, candidates: Scores) -> None:
        if metric.order is None:
            raise ValueError(f"engine 'kdtree' knows only Lp metrics, not {metric.name!r}")
        self.metric = metric
        self.order = metric.order
        self.candidates = candidates
        self._tree = cKDTree(candidates.prob, balanced_tree=False)
        self._loss = _SQUARES_UNDERFLOW if metric.order == 2 else 0.0

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        order = np.arange(len(anchors))
        if len(self.candidates) > _OUT_OF_CACHE and len(anchors) > _ROWS_AT_ONCE:
            order, _ = partition(anchors.bare(), 64)  # neighbours walk the same branches
        for start in range(0, len(anchors), _ROWS_AT_ONCE):
            self._search(anchors, order[start : start + _ROWS_AT_ONCE], k, result)
        return result

    def _search(self, anchors: Scores, rows: np.ndarray, k: int, result: Nearest) -> None:
        width = k + 1
        while len(rows):
            if width >= len(self.candidates) or width > 64 * k:
                direct = DirectEngine(self.metric, self.candidates)
                result.put(rows, direct.nearest(anchors.take(rows), k))
                return
            p = anchors.take(rows)
            far, table = self._tree.query(p.prob, k=width, p=self.order)
            found = rank_table(self.metric, p, self.candidates, table.astype(np.int64), k)
            bound = far[:, -1] * (1 - RELATIVE_SLACK) - self._loss
            proven = found.distances[:, -1] < bound
            result.put(rows[proven], Nearest(found.distances[proven], found.positions[proven]))
            rows = rows[~proven]
            width *= 4
