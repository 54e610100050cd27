"""Blocks on a torch device: the same values and bounds, computed by a GPU."""

from __future__ import annotations

import numpy as np
import torch

from equipoise.balance.distances import IntArray
from equipoise.balance.engines.kernels import Float32Array

#: A GPU wants more work at a time than a core's cache holds.
DEVICE_BLOCK_BYTES = 256 << 20


class TorchBlocks:
    """Block values on a device; only what is near comes back.

    Reduced precision (TF32) would break the error bounds, so it is switched off meanwhile.
    """

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def load(self, combine: str, matrix: Float32Array, rows: int) -> None:
        self._combine = combine
        self._matrix = torch.from_numpy(np.ascontiguousarray(matrix)).to(self._device)

    def values(self, factors: Float32Array) -> None:
        left = torch.from_numpy(np.ascontiguousarray(factors)).to(self._device)
        if self._combine == "dot":
            precision = torch.get_float32_matmul_precision()
            torch.set_float32_matmul_precision("highest")
            try:
                self._values = left @ self._matrix
            finally:
                torch.set_float32_matmul_precision(precision)
        else:
            power = 1.0 if self._combine == "l1" else float("inf")
            self._values = torch.cdist(left, self._matrix.T.contiguous(), p=power)

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
