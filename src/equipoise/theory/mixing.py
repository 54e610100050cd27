"""Random invertible maps: the mechanism x = f_y(z) of a synthetic world."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MixingLayer:
    """A well-conditioned linear map followed by a leaky ReLU; both can be undone."""

    weight: Floats  # [width, width]
    bias: Floats  # [width]
    slope: float

    def apply(self, h: Floats) -> Floats:
        h = h @ self.weight.T + self.bias
        return np.where(h > 0, h, self.slope * h)

    def invert(self, h: Floats) -> Floats:
        h = np.where(h > 0, h, h / self.slope) - self.bias
        return np.asarray(np.linalg.solve(self.weight, h.T).T)


@dataclass(frozen=True)
class Mixing:
    """Invertible layers one after the other.

    >>> mixing = draw_mixing(3, depth=2, generator=np.random.default_rng(0))
    >>> z = np.array([[0.5, -1.0, 2.0]])
    >>> bool(np.allclose(mixing.invert(mixing.apply(z)), z))
    True
    """

    layers: tuple[MixingLayer, ...]

    def apply(self, h: Floats) -> Floats:
        for layer in self.layers:
            h = layer.apply(h)
        return h

    def invert(self, h: Floats) -> Floats:
        for layer in reversed(self.layers):
            h = layer.invert(h)
        return h


def draw_mixing(
    width: int, *, depth: int, slope: float = 0.2, generator: np.random.Generator
) -> Mixing:
    """A random mixing of `width` numbers; every layer bends at random places.

    Weights are a rotation times gains of 0.7 … 1.3, so that no direction is lost on the way.
    """
    if not 0 < slope <= 1:
        raise ValueError(f"slope must be above 0 and at most 1 to be invertible, got {slope}")
    if depth < 1:
        raise ValueError(f"depth must be at least 1 layer, got {depth}")
    return Mixing(
        tuple(
            MixingLayer(
                weight=draw_rotation(width, generator) * generator.uniform(0.7, 1.3, size=width),
                bias=0.5 * generator.normal(size=width),
                slope=slope,
            )
            for _ in range(depth)
        )
    )


def draw_rotation(n: int, generator: np.random.Generator) -> Floats:
    """A random orthogonal matrix [n, n]; evenly distributed, as the signs of R are fixed."""
    q, r = np.linalg.qr(generator.normal(size=(n, n)))
    return np.asarray(q * np.sign(np.diag(r)))
