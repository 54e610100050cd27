"""The matrix L of Theorem 3.3: does the fitted prior vary enough to pin Z down? Condition (3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

RELATIVE_TOLERANCE = 1e-6  # of singular values


@dataclass(frozen=True)
class Identifiability:
    """The matrix L [nk, nk] that `pairs` of (label, environment) span; the first is (y_0, e_0)."""

    pairs_available: int
    pairs_needed: int
    rank: int
    condition: float
    pairs: tuple[tuple[int, int], ...]

    @property
    def holds(self) -> bool:
        """Enough pairs, and L has full rank."""
        return self.rank == self.pairs_needed - 1

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "does not hold"
        return (
            f"Condition (3) of Theorem 3.3 {verdict}: "
            f"rank of L {self.rank} of {self.pairs_needed - 1}, condition {self.condition:.3g}, "
            f"{self.pairs_available} (label, environment) pairs with {self.pairs_needed} needed"
        )


def examine_identifiability(
    natural_parameters: NDArray[np.float64], seen: NDArray[np.bool_]
) -> Identifiability:
    """Choose nk+1 pairs that condition L well, and tell its rank and condition.

    natural_parameters: λ^e(y) [m, |E|, n·k]; seen: which pairs had examples [m, |E|].
    The columns are chosen by a QR decomposition with pivoting.

    >>> identity = np.concatenate([np.zeros((1, 2)), np.eye(2)])[:, None]  # three labels, n·k = 2
    >>> print(examine_identifiability(identity, np.ones((3, 1), dtype=bool)))
    Condition (3) of Theorem 3.3 holds: rank of L 2 of 2, condition 1, 3 (label, environment) \
pairs with 3 needed
    """
    codes = np.argwhere(seen)  # [pairs, 2]
    parameters = natural_parameters[seen]  # [pairs, nk]
    n_columns = parameters.shape[1]
    # The most central pair is the reference: differences from it are the most even.
    reference = int(np.argmin(np.square(parameters - parameters.mean(0)).sum(1)))
    others = np.delete(np.arange(len(codes)), reference)
    differences = (parameters[others] - parameters[reference]).T  # [nk, pairs - 1]
    rank, condition, chosen = 0, float("inf"), np.zeros(0, dtype=np.int64)
    if differences.shape[1]:
        _, _, pivots = qr(differences, mode="economic", pivoting=True)
        chosen = pivots[:n_columns]
        matrix_l = differences[:, chosen]  # L of Theorem 3.3
        singular = np.linalg.svd(matrix_l, compute_uv=False)
        rank = int((singular > RELATIVE_TOLERANCE * singular[0]).sum()) if singular[0] > 0 else 0
        if rank == n_columns:
            condition = float(singular[0] / singular[-1])
    spanning = codes[[reference, *others[chosen]]].tolist()
    pairs = tuple((label, environment) for label, environment in spanning)
    return Identifiability(len(codes), n_columns + 1, rank, condition, pairs)


def examine_labels(
    natural_parameters: NDArray[np.float64], seen: NDArray[np.bool_]
) -> tuple[Identifiability, ...]:
    """Condition (3) of Theorem 3.3 within each label: its own environments must span L.

    An x belongs to one label, so pairs of other labels say nothing about its z: see
    docs/theory.md. λ^e(y) is [m, |E|, n·k], `seen` [m, |E|] tells which pairs had examples.

    >>> parameters = np.random.default_rng(0).normal(size=(2, 3, 2))  # n·k = 2
    >>> [found.holds for found in examine_labels(parameters, np.ones((2, 3), dtype=bool))]
    [True, True]
    """
    return tuple(
        examine_identifiability(natural_parameters[label][None], seen[label][None])
        for label in np.flatnonzero(seen.any(axis=1))
    )
