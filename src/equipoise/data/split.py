"""The split of every environment into a train and a held-out part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Split:
    """Sorted example indices of the two parts; together they are everything, once."""

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]


def split_environments(
    environments: ArrayLike, *, held_out: float = 0.2, data_seed: int = 0
) -> Split:
    """Hold out a share of every environment. Depends on the data seed alone, never on a run's.

    >>> split = split_environments([0] * 10 + [1] * 5)
    >>> len(split.train), len(split.held_out)
    (12, 3)
    """
    if not 0.0 < held_out < 1.0:
        raise ValueError(f"held_out must be a share between 0 and 1, got {held_out}")
    codes = np.asarray(environments)
    parts = []
    for position, environment in enumerate(np.unique(codes)):
        members = np.flatnonzero(codes == environment)
        generator = np.random.default_rng([data_seed, position, 0x5711])
        parts.append(generator.permutation(members)[: round(held_out * len(members))])
    out = np.sort(np.concatenate(parts))
    train = np.setdiff1d(np.arange(len(codes)), out, assume_unique=True)
    return Split(train=train, held_out=out)
