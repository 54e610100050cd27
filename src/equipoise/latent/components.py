"""The best linear guess at the latent covariate, from which a fit can start."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def find_components(
    x: Floats, labels: Ints, environments: Ints, n_components: int, *, separate: bool
) -> tuple[Floats, Floats]:
    """Linear maps x -> z [n, features] and back [features, n] such that z suits a Gaussian prior.

    The leading directions within labels, scaled and turned so that within a (label, environment)
    pair z has unit covariance on average. With `separate` they are turned further, until z has
    as little covariance as possible in every single pair: what k = 2 expects of its axes.

    >>> rng = np.random.default_rng(0)
    >>> sizes = np.array([[1.0, 9.0], [9.0, 1.0]])
    >>> pairs = np.repeat([0, 1], 500)
    >>> x = rng.normal(size=(1000, 2)) * sizes[pairs] @ np.array([[1.0, 1.0], [-1.0, 1.0]])
    >>> into, back = find_components(x, np.zeros(1000, int), pairs, 2, separate=True)
    >>> bool(np.allclose(back @ into, np.eye(2)))
    True
    """
    centred = x - _group_means(x, labels)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:n_components]
    pairs = environments * (int(labels.max()) + 1) + labels
    z = x @ directions.T
    within = z - _group_means(z, pairs)
    values, vectors = np.linalg.eigh(within.T @ within / len(x))
    deviation = np.sqrt(np.maximum(values, 1e-12 * values.max()))
    turn = (vectors / deviation).T  # [n, n], to unit covariance
    undo = vectors * deviation
    if separate:
        within = within @ turn.T
        codes, counts = np.unique(pairs, return_counts=True)
        enough = codes[counts > 2 * n_components]
        covariances = [np.cov(within[pairs == pair].T) for pair in enough]
        if len(covariances) > 1 and n_components > 1:
            rotation = diagonalize_jointly(np.stack(covariances))
            turn, undo = rotation @ turn, undo @ rotation.T
    return turn @ directions, directions.T @ undo


def diagonalize_jointly(matrices: Floats, *, sweeps: int = 50) -> Floats:
    """The rotation R [n, n] that makes all R·C·Rᵀ as diagonal as it can, for C [p, n, n].

    Jacobi rotations of two axes at a time (Cardoso and Souloumiac 1996).
    """
    matrices = matrices.copy()
    n = matrices.shape[1]
    rotation = np.eye(n)
    for _ in range(sweeps):
        largest = 0.0
        for i in range(n - 1):
            for j in range(i + 1, n):
                difference = matrices[:, i, i] - matrices[:, j, j]
                double = 2.0 * matrices[:, i, j]
                on = float(difference @ difference - double @ double)
                off = float(2.0 * difference @ double)
                angle = 0.25 * np.arctan2(off, on)
                largest = max(largest, abs(angle))
                turn = np.eye(n)
                turn[i, i] = turn[j, j] = np.cos(angle)
                turn[i, j], turn[j, i] = np.sin(angle), -np.sin(angle)
                matrices = turn @ matrices @ turn.T
                rotation = turn @ rotation
        if largest < 1e-8:
            break
    return rotation


def _group_means(x: Floats, groups: Ints) -> Floats:
    """The mean of each row's group [N, features]."""
    _, codes = np.unique(groups, return_inverse=True)
    sums = np.zeros((codes.max() + 1, x.shape[1]))
    np.add.at(sums, codes, x)
    return np.asarray((sums / np.bincount(codes)[:, None])[codes])
