"""All pairs, but in float32 and in blocks that stay in cache, by numpy or by torch on a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.kernels import (
    PADDING,
    Factors,
    Float32Array,
    Kernel,
    make_kernel,
    near_limit,
    prepare,
)
from equipoise.balance.engines.nearest import Nearest, rank_pairs, rank_table

_BLOCK_BYTES = 2 << 20
_DEVICE_BLOCK_BYTES = 256 << 20  # a GPU wants more work at a time than a core's cache holds
_PAIRS_AT_ONCE = 1 << 16
_MANY = 1 << 10  # candidates
_SHORT = 2560  # numpy copies broadcast rows up to about this length before it subtracts


class BlockedEngine:
    """KL and L2 as matrix products, L1 and L∞ label by label, over all candidates.

    The k-th least value of a block bounds the k-th distance from above; every candidate whose
    value allows a distance that small is then measured by the metric itself. Beyond a
    `tolerance` only the nearest need be found, and `only_positions` leaves distances out
    where they decide nothing.
    """

    name = "blocked"

    def __init__(
        self,
        metric: Metric,
        candidates: Scores,
        *,
        block_bytes: int | None = None,
        device: str | None = None,
        only_positions: bool = False,
        tolerance: float | None = None,
    ) -> None:
        self.metric, self.candidates = metric, candidates
        self._kernel = make_kernel(metric, candidates)
        self._block_bytes = block_bytes or (_DEVICE_BLOCK_BYTES if device else _BLOCK_BYTES)
        self._device, self._only_positions, self._tolerance = device, only_positions, tolerance

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        shortlist = Shortlist(
            self.metric, anchors.bare(), self.candidates, k, result, self._only_positions
        )
        factors = prepare(self.metric, anchors).factors
        step = max(1, self._block_bytes // (4 * self._kernel.matrix.shape[1]))
        blocks: NumpyBlocks | TorchBlocks
        if self._device is None:
            blocks = NumpyBlocks(self._kernel, min(step, len(anchors)))
        else:
            blocks = TorchBlocks(self._kernel, self._device)
        for start in range(0, len(anchors), step):
            part = slice(start, min(len(anchors), start + step))
            blocks.values(factors.take(part))
            pairs = self._near(anchors, part, factors.sizes[part], k, blocks)
            shortlist.add(np.arange(part.start, part.stop), *pairs)
        shortlist.rank()
        return result

    def _near(
        self,
        anchors: Scores,
        here: slice,
        sizes: FloatArray,
        k: int,
        blocks: NumpyBlocks | TorchBlocks,
    ) -> tuple[IntArray, IntArray]:
        """Pairs (row, candidate) that hold the k nearest of every row of a block."""
        if self._kernel.bounded:
            upper = self._kernel.upper(sizes, blocks.least(k))
            if self._tolerance is not None and k > 1:
                first = self._kernel.upper(sizes, blocks.least(1))
                upper = np.minimum(upper, np.maximum(first, self._tolerance))
        else:
            table = blocks.places(k)
            table = np.where(table < len(self.candidates), table, -1)
            found = rank_table(self.metric, anchors.take(here), self.candidates, table, k)
            upper = found.distances[:, -1]
        rows, places = blocks.below(near_limit(self._kernel, sizes, upper))
        real = places < len(self.candidates)
        return rows[real], places[real]


@dataclass
class Shortlist:
    """Pairs wait here until there are enough of them to be measured together."""

    metric: Metric
    anchors: Scores
    candidates: Scores
    k: int
    result: Nearest
    only_positions: bool = False
    _waiting: list[tuple[IntArray, IntArray, IntArray]] = field(default_factory=list)
    _n_anchors: int = 0
    _n_pairs: int = 0

    def add(self, anchors: IntArray, rows: IntArray, places: IntArray) -> None:
        self._waiting.append((anchors, rows + self._n_anchors, places))
        self._n_anchors += len(anchors)
        self._n_pairs += len(rows)
        if self._n_pairs >= _PAIRS_AT_ONCE:
            self.rank()

    def rank(self) -> None:
        if not self._waiting:
            return
        anchors, rows, places = map(np.concatenate, zip(*self._waiting, strict=True))
        if self.only_positions and self.k == 1:
            alone = np.bincount(rows, minlength=len(anchors)) == 1
            sole = alone[rows]
            self.result.positions[anchors[rows[sole]], 0] = places[sole]
            number = np.cumsum(~alone) - 1
            anchors, rows, places = anchors[~alone], number[rows[~sole]], places[~sole]
        if len(anchors):
            some = self.anchors.take(anchors)
            ranked = rank_pairs(self.metric, some, self.candidates, rows, places, self.k)
            self.result.put(anchors, ranked)
        self._waiting, self._n_anchors, self._n_pairs = [], 0, 0


def combine_block(
    kernel: Kernel, anchors: Factors, columns: slice | IntArray, values: Float32Array
) -> None:
    """Write the kernel's values of anchors [n] and some candidates into `values` [n, c]."""
    if kernel.combine == "dot":
        np.matmul(anchors.values, kernel.matrix[:, columns], out=values)
        near = np.flatnonzero(anchors.corner >= 0)
        if len(near):
            corner = anchors.corner[near]
            extra = kernel.corner_rows[:, columns][corner]
            extra *= anchors.beyond[near, None]
            extra += kernel.corner_squares[:, columns][corner]
            values[near] += extra
        return
    part = np.empty_like(values)
    fold = np.add if kernel.combine == "l1" else np.maximum
    order = np.argsort(anchors.corner, kind="stable")
    cuts = np.searchsorted(anchors.corner[order], np.arange(len(kernel.matrix) + 1))
    values[:] = 0.0
    for label, row in enumerate(kernel.matrix):
        left, right = anchors.values[:, label], row[columns]
        if len(right) > _SHORT:
            np.subtract(left[:, None], right, out=part)
        else:  # left·1 + 1·(−right) is rounded once, like the difference
            pair = np.stack([left, np.ones_like(left)], axis=1)
            np.matmul(pair, np.stack([np.ones_like(right), -right]), out=part)
        near = order[cuts[label] : cuts[label + 1]]
        if len(near):
            part[near] = anchors.beyond[near, None] - kernel.corner_rows[label, columns]
        np.abs(part, out=part)
        fold(values, part, out=values)


class NumpyBlocks:
    """Blocks on this machine's processor; many columns in groups g, g + width, … of PADDING."""

    def __init__(self, kernel: Kernel, rows: int) -> None:
        self._kernel = kernel
        self._buffer = np.empty((rows, kernel.matrix.shape[1]), dtype=np.float32)

    def values(self, anchors: Factors) -> None:
        """Compute the values of a block; the other methods look at them."""
        self._flat = self._buffer[: len(anchors.values)]
        combine_block(self._kernel, anchors, slice(None), self._flat)
        self._members = PADDING if self._flat.shape[1] >= _MANY else 1
        self._grouped = self._flat.reshape(len(self._flat), self._members, -1)
        self._least = self._grouped.min(axis=1) if self._members > 1 else self._flat

    def least(self, k: int) -> Float32Array:
        """A value that at least k candidates of each row do not exceed."""
        if k == 1:
            return np.asarray(self._least.min(axis=1))
        values = self._least if 2 * k <= self._least.shape[1] else self._flat
        return np.asarray(np.partition(values, k - 1, axis=1)[:, k - 1])

    def places(self, k: int) -> IntArray:
        """The k candidates of least value."""
        if k == 1:
            return np.asarray(self._flat.argmin(axis=1)[:, None])
        return np.asarray(np.argpartition(self._flat, k - 1, axis=1)[:, :k])

    def below(self, limit: Float32Array) -> tuple[IntArray, IntArray]:
        """Rows, in order, and columns of all values up to the limit of their row."""
        near = self._least <= limit[:, None]
        width = near.shape[1]
        if self._members > 1:
            if np.count_nonzero(near) * PADDING <= near.size:
                rows, groups = np.divmod(np.flatnonzero(near), width)
                which, member = np.nonzero(self._grouped[rows, :, groups] <= limit[rows, None])
                return rows[which], member * width + groups[which]
            near = self._flat <= limit[:, None]
        rows, columns = np.divmod(np.flatnonzero(near), near.shape[1])
        return np.asarray(rows), np.asarray(columns)


class TorchBlocks:
    """The same on a device, without reduced precision, which would break the error bounds."""

    def __init__(self, kernel: Kernel, device: str) -> None:
        self._kernel, self._device = kernel, torch.device(device)
        self._matrix = self._put(kernel.matrix)

    def _put(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    @cached_property
    def _corner_rows(self) -> torch.Tensor:
        return self._put(self._kernel.corner_rows)

    @cached_property
    def _corner_squares(self) -> torch.Tensor:
        return self._put(self._kernel.corner_squares)

    def values(self, anchors: Factors) -> None:
        left = self._put(anchors.values)
        near = np.flatnonzero(anchors.corner >= 0)
        if self._kernel.combine == "dot":
            self._values = self._product(left)
            if len(near):
                corner = self._put(anchors.corner[near])
                extra = self._put(anchors.beyond[near])[:, None] * self._corner_rows[corner]
                self._values[self._put(near)] += extra + self._corner_squares[corner]
            return
        power = 1.0 if self._kernel.combine == "l1" else float("inf")
        self._values = torch.cdist(left, self._matrix.T.contiguous(), p=power)
        for corner in np.unique(anchors.corner[near]):
            here = self._put(np.flatnonzero(anchors.corner == corner))
            matrix = self._matrix.clone()
            matrix[corner] = self._corner_rows[corner]
            self._values[here] = torch.cdist(left[here], matrix.T.contiguous(), p=power)

    def _product(self, left: torch.Tensor) -> torch.Tensor:
        precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            return left @ self._matrix
        finally:
            torch.set_float32_matmul_precision(precision)

    def least(self, k: int) -> Float32Array:
        values = self._values.topk(k, dim=1, largest=False).values[:, -1]
        return np.asarray(values.cpu().numpy())

    def places(self, k: int) -> IntArray:
        places = self._values.topk(k, dim=1, largest=False).indices
        return np.asarray(places.cpu().numpy(), dtype=np.int64)

    def below(self, limit: Float32Array) -> tuple[IntArray, IntArray]:
        near = self._values <= torch.from_numpy(limit).to(self._device)[:, None]
        rows, columns = near.nonzero(as_tuple=True)
        return rows.cpu().numpy(), columns.cpu().numpy()
