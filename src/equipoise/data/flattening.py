"""Examples as flat rows of moderate length, for tools that need no more than a glance."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.sources import Source

BLOCK = 512


def flatten_examples(source: Source, indices: NDArray[np.int64], *, largest: int = 2048) -> Tensor:
    """Examples [B, d] with d ≤ `largest`: images are shrunk by averaging, long vectors projected.

    The projection is random and always the same.

    >>> from equipoise.data.sources import ArraySource
    >>> pictures = ArraySource(torch.ones(2, 3, 64, 64))
    >>> flatten_examples(pictures, np.arange(2)).shape
    torch.Size([2, 2028])
    """
    rows = [
        _flatten(source.fetch(indices[start : start + BLOCK]), largest)
        for start in range(0, len(indices), BLOCK)
    ]
    return torch.cat(rows)


def _flatten(x: Tensor, largest: int) -> Tensor:
    x = x.float().cpu()
    if x.ndim == 4 and x[0].numel() > largest:
        side = max(1, math.isqrt(largest // x.shape[1]))
        height, width = (min(side, size) for size in x.shape[2:])
        x = F.adaptive_avg_pool2d(x, (height, width))
    flat = x.flatten(1)
    if flat.shape[1] <= largest:
        return flat
    generator = torch.Generator().manual_seed(0)
    projection = torch.randn(flat.shape[1], largest // 4, generator=generator)
    return flat @ projection / math.sqrt(flat.shape[1])
