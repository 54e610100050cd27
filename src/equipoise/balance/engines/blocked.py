"""All pairs, but in float32 and in blocks that stay in cache, by numpy or by torch on a device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Metric, Scores
from equipoise.balance.engines.kernels import (
    PADDING,
    Factors,
    Float32Array,
    Kernel,
    factors_of,
    make_kernel,
    near_limit,
)
from equipoise.balance.engines.nearest import Candidates, Nearest, rank_pairs, rank_table

BLOCK_BYTES = 2 << 20
_PAIRS_AT_ONCE = 1 << 16
_MANY = 1 << 10  # candidates
_SHORT = 2560  # numpy copies broadcast rows up to about this length before it subtracts


class Blocks(Protocol):
    """Where block values are computed: numpy here, torch on a device elsewhere."""

    def load(self, kernel: Kernel, rows: int) -> None: ...

    def values(self, anchors: Factors) -> None: ...

    def least(self, k: int) -> Float32Array:
        """A value that at least k candidates of each row do not exceed."""

    def places(self, k: int) -> IntArray:
        """The k candidates of least value."""

    def below(self, limit: Float32Array) -> tuple[IntArray, IntArray]:
        """Rows, in order, and columns of all values up to the limit of their row."""


@dataclass(frozen=True)
class RowsOnDemand:
    """Candidates whose scores are read by position when they are to be measured."""

    n: int
    read: Callable[[IntArray], Scores]

    def __len__(self) -> int:
        return self.n

    def take(self, rows: IntArray) -> Scores:
        flat = self.read(rows.ravel())
        shape = (*rows.shape, flat.log.shape[1])
        return Scores(flat.log.reshape(shape), flat.prob.reshape(shape))


class BlockedEngine:
    """KL and L2 as matrix products, L1 and L∞ label by label, over all candidates.

    The k-th least value of a block bounds the k-th distance from above; every candidate whose
    value allows a distance that small is then measured by the metric itself. No second look is
    ever needed, whatever the scores. Beyond a `tolerance` only the nearest need be found.
    """

    name = "blocked"

    def __init__(
        self,
        metric: Metric,
        candidates: Scores,
        *,
        block_bytes: int = BLOCK_BYTES,
        blocks: Blocks | None = None,
        only_positions: bool = False,
        tolerance: float | None = None,
    ) -> None:
        self.metric = metric
        self.candidates: Candidates = candidates
        self._kernel = make_kernel(metric, candidates)
        self._block_bytes = block_bytes
        self._blocks = blocks
        self._only_positions = only_positions
        self._tolerance = tolerance

    def nearest(self, anchors: Scores, k: int) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        shortlist = Shortlist(
            self.metric, anchors.bare(), self.candidates, k, result, self._only_positions
        )
        blocks = self._blocks or NumpyBlocks()
        factors = factors_of(self.metric, anchors)
        step = max(1, self._block_bytes // (4 * self._kernel.matrix.shape[1]))
        blocks.load(self._kernel, min(step, len(anchors)))
        for start in range(0, len(anchors), step):
            part = slice(start, min(len(anchors), start + step))
            blocks.values(factors.take(part))
            pairs = self._near(anchors, part, factors.sizes[part], k, blocks)
            shortlist.add(np.arange(part.start, part.stop), *pairs)
        shortlist.rank()
        return result

    def _near(
        self, anchors: Scores, here: slice, sizes: FloatArray, k: int, blocks: Blocks
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


class Shortlist:
    """Pairs wait here until there are enough of them to be measured together."""

    def __init__(
        self,
        metric: Metric,
        anchors: Scores,
        candidates: Candidates,
        k: int,
        result: Nearest,
        only_positions: bool = False,
    ) -> None:
        self.metric, self.anchors, self.candidates = metric, anchors, candidates
        self.k, self.result, self.only_positions = k, result, only_positions
        self._anchors: list[IntArray] = []
        self._rows: list[IntArray] = []
        self._places: list[IntArray] = []
        self._n_anchors = self._n_pairs = 0

    def add(self, anchors: IntArray, rows: IntArray, places: IntArray) -> None:
        self._anchors.append(anchors)
        self._rows.append(rows + self._n_anchors)
        self._places.append(places)
        self._n_anchors += len(anchors)
        self._n_pairs += len(rows)
        if self._n_pairs >= _PAIRS_AT_ONCE:
            self.rank()

    def rank(self) -> None:
        if not self._anchors:
            return
        anchors = np.concatenate(self._anchors)
        rows, places = np.concatenate(self._rows), np.concatenate(self._places)
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
        self._anchors, self._rows, self._places = [], [], []
        self._n_anchors = self._n_pairs = 0


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
        _subtract(anchors.values[:, label], row[columns], part)
        near = order[cuts[label] : cuts[label + 1]]
        if len(near):
            part[near] = anchors.beyond[near, None] - kernel.corner_rows[label, columns]
        np.abs(part, out=part)
        fold(values, part, out=values)


def _subtract(left: Float32Array, right: Float32Array, out: Float32Array) -> None:
    """All differences [n, c]. Rows too short for numpy's loops are made as a product.

    left·1 + 1·(−right) is rounded once, like the difference: the values are the same.
    """
    if len(right) > _SHORT:
        np.subtract(left[:, None], right, out=out)
        return
    columns, rows = np.ones((len(left), 2), np.float32), np.ones((2, len(right)), np.float32)
    columns[:, 0] = left
    np.negative(right, out=rows[1])
    np.matmul(columns, rows, out=out)


class NumpyBlocks:
    """Blocks on this machine's processor.

    Many candidates are looked at in groups of PADDING: group g of a row holds the columns g,
    g + width, g + 2·width, … Nearly all groups are far, and their least value says so.
    """

    def load(self, kernel: Kernel, rows: int) -> None:
        self._kernel = kernel
        self._buffer = np.empty((rows, kernel.matrix.shape[1]), dtype=np.float32)

    def values(self, anchors: Factors) -> None:
        values = self._buffer[: len(anchors.values)]
        combine_block(self._kernel, anchors, slice(None), values)
        members = PADDING if values.shape[1] >= _MANY else 1
        self._values = values.reshape(len(values), members, -1)  # [rows, members, groups]
        self._least = self._values.min(axis=1) if members > 1 else values  # [rows, groups]

    def least(self, k: int) -> Float32Array:
        if k == 1:
            return np.asarray(self._least.min(axis=1))
        values = self._least if 2 * k <= self._least.shape[1] else self._flat()
        return np.asarray(np.partition(values, k - 1, axis=1)[:, k - 1])

    def _flat(self) -> Float32Array:
        return self._values.reshape(len(self._values), -1)

    def places(self, k: int) -> IntArray:
        if k == 1:
            return np.asarray(self._flat().argmin(axis=1)[:, None])
        return np.asarray(np.argpartition(self._flat(), k - 1, axis=1)[:, :k])

    def below(self, limit: Float32Array) -> tuple[IntArray, IntArray]:
        near_groups = self._least <= limit[:, None]
        width = near_groups.shape[1]
        if near_groups.size == self._values.size:
            rows, columns = np.divmod(np.flatnonzero(near_groups), width)
            return np.asarray(rows), np.asarray(columns)
        if np.count_nonzero(near_groups) * PADDING > near_groups.size:
            flat = self._flat()
            rows, columns = np.divmod(np.flatnonzero(flat <= limit[:, None]), flat.shape[1])
            return np.asarray(rows), np.asarray(columns)
        rows, groups = np.divmod(np.flatnonzero(near_groups), width)
        which, member = np.nonzero(self._values[rows, :, groups] <= limit[rows, None])
        return rows[which], member * width + groups[which]


#: A GPU wants more work at a time than a core's cache holds.
DEVICE_BLOCK_BYTES = 256 << 20


class TorchBlocks:
    """Block values on a device; only what is near comes back.

    Reduced precision (TF32) would break the error bounds, so it is switched off meanwhile.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def load(self, kernel: Kernel, rows: int) -> None:
        self._kernel = kernel
        self._matrix = self._put(kernel.matrix)
        self._corners: tuple[torch.Tensor, torch.Tensor] | None = None

    def _put(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)

    def values(self, anchors: Factors) -> None:
        left = self._put(anchors.values)
        near = np.flatnonzero(anchors.corner >= 0)
        if len(near) and self._corners is None:
            rows = self._kernel.corner_rows
            squares = self._kernel.corner_squares if self._kernel.combine == "dot" else rows[:0]
            self._corners = self._put(rows), self._put(squares)
        if self._kernel.combine == "dot":
            self._values = self._product(left)
            if len(near) and self._corners is not None:
                corner = self._put(anchors.corner[near])
                extra = self._put(anchors.beyond[near])[:, None] * self._corners[0][corner]
                self._values[self._put(near)] += extra + self._corners[1][corner]
            return
        power = 1.0 if self._kernel.combine == "l1" else float("inf")
        self._values = torch.cdist(left, self._matrix.T.contiguous(), p=power)
        for corner in np.unique(anchors.corner[near]):
            here = self._put(np.flatnonzero(anchors.corner == corner))
            matrix = self._matrix.clone()
            matrix[corner] = self._corners[0][corner]  # type: ignore[index]
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
