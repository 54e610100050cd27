"""Numbers too small to matter, and too slow to keep while training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat denormal numbers as zero inside, and as before on leaving.

    Adam's moments of rarely lit pixels turn denormal and slow every step several-fold. Outside
    training they count: tiny probabilities decide between near scores.
    """
    before = _are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def _are_flushed() -> bool:
    return float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0
