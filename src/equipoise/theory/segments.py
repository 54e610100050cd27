"""The standard test of nonlinear independent component analysis: segments of other variances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.theory.mixing import draw_mixing

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SegmentedSample:
    """Mixed sources x [N, n], the segment [N] of each, and the sources z [N, n] themselves."""

    x: Floats
    segments: Ints
    z: Floats


def sample_segments(
    *,
    n_sources: int = 5,
    n_segments: int = 40,
    per_segment: int = 1000,
    depth: int = 2,
    slope: float = 0.2,
    seed: int,
) -> SegmentedSample:
    """Gaussian sources whose variances are modulated by segment, mixed by a random perceptron.

    Deviations are uniform in 0.1 … 2.1 and independent over segments and sources; there is no
    label and no noise. A segment is what an environment is elsewhere in the package.

    >>> sample = sample_segments(n_segments=3, per_segment=10, seed=0)
    >>> sample.x.shape, np.bincount(sample.segments).tolist()
    ((30, 5), [10, 10, 10])
    """
    generator = np.random.default_rng([seed, 0x1CA])
    deviations = generator.uniform(0.1, 2.1, size=(n_segments, n_sources))
    segments = np.repeat(np.arange(n_segments), per_segment)
    z = deviations[segments] * generator.normal(size=(len(segments), n_sources))
    mixing = draw_mixing(n_sources, depth=depth, slope=slope, generator=generator)
    return SegmentedSample(mixing.apply(z), segments, z)
