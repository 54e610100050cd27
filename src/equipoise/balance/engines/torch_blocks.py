"""Blocks on a torch device: the same values and bounds, computed by a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from equipoise.balance.distances import IntArray
from equipoise.balance.engines.kernels import Factors, Float32Array, Kernel

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
        """The k-th least value of each row."""
        values = self._values.topk(k, dim=1, largest=False).values[:, -1]
        return np.asarray(values.cpu().numpy())

    def places(self, k: int) -> IntArray:
        """The k candidates of least value."""
        places = self._values.topk(k, dim=1, largest=False).indices
        return np.asarray(places.cpu().numpy(), dtype=np.int64)

    def below(self, limit: Float32Array) -> tuple[IntArray, IntArray]:
        """Rows, in order, and columns of all values up to the limit of their row."""
        near = self._values <= torch.from_numpy(limit).to(self._device)[:, None]
        rows, columns = near.nonzero(as_tuple=True)
        return rows.cpu().numpy(), columns.cpu().numpy()
