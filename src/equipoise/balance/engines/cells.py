"""Blocks again, but only between anchors and candidates that can be near each other."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import Boxes, FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine, Shortlist, combine_block
from equipoise.balance.engines.boxes import BoxBounds, partition
from equipoise.balance.engines.kernels import Factors, Float32Array, make_kernel, prepare
from equipoise.balance.engines.nearest import Nearest

_CELL = 512
_GROUP = 512
_SCOUTS = 4  # anchors of a group whose nearest cells are looked at first
_ROWS_AT_ONCE = 1 << 15
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

    def _limit(self, sizes: FloatArray, upper: FloatArray) -> Float32Array:
        with np.errstate(over="ignore"):
            limit = self._kernel.limit(sizes, upper).astype(np.float32)
        return np.asarray(np.nextafter(limit, np.float32(np.inf)))

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
        limit = self._limit(sizes, upper)
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
        return self._limit(sizes, self._kernel.upper(sizes, value))

    def _sift(
        self, rows: IntArray, places: IntArray, values: Float32Array, sizes: FloatArray, k: int
    ) -> tuple[IntArray, IntArray]:
        """Drop what the k-th best value of each row rules out; put the rest in order of row."""
        order = np.lexsort((values, rows))
        rows, places, values = rows[order], places[order], values[order]
        starts = np.searchsorted(rows, np.arange(len(sizes)))
        kept = values <= self._raise(sizes, values[starts + k - 1])[rows]
        return rows[kept], places[kept]
