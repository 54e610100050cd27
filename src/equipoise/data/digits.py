"""All 70,000 MNIST digits, dealt into environments by the data seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.fetch import fetch_mnist


@dataclass(frozen=True)
class Deal:
    """Digits in dealt order; `generator` goes on to draw the noise of the dataset."""

    pixels: NDArray[np.uint8]  # [70000, 28, 28]
    digits: NDArray[np.int64]
    environments: NDArray[np.int64]
    generator: np.random.Generator


def deal_digits(n_environments: int, *, data_dir: str | Path | None, data_seed: int) -> Deal:
    """Shuffle the digits and deal them to the environments in turn, like cards."""
    if n_environments < 2:
        raise ValueError(f"digits need at least two environments, got {n_environments}")
    pixels, digits = fetch_mnist(data_dir)
    generator = np.random.default_rng([data_seed, 0xDEA1])
    order = generator.permutation(len(digits))
    return Deal(
        pixels=pixels[order],
        digits=digits[order].astype(np.int64),
        environments=np.arange(len(digits), dtype=np.int64) % n_environments,
        generator=generator,
    )
