"""Examples by environment and label: sums, means and variances of every group at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: The name under which all environments together stand in tables.
POOLED = "(pooled)"


@dataclass(frozen=True)
class Groups:
    """Which examples belong to which (environment, label): tables [E + 1, m], the last row pooled.

    >>> groups = Groups(np.array([0, 0, 1]), np.array([0, 0, 0]), ("ant", "bee"), ("rome",))
    >>> groups.total(np.array([1.0, 2.0, 5.0]))
    array([[3., 5.],
           [3., 5.]])
    """

    labels: Ints
    environments: Ints
    label_names: tuple[str, ...]
    environment_names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.labels) != len(self.environments):
            raise ValueError(
                f"labels and environments must be aligned, but have {len(self.labels)} and "
                f"{len(self.environments)} entries"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.environment_names), len(self.label_names)

    @property
    def places(self) -> tuple[str, ...]:
        """Names of the rows: every environment, then `POOLED`."""
        return (*self.environment_names, POOLED)

    @property
    def codes(self) -> Ints:
        return self.environments * len(self.label_names) + self.labels

    def total(self, values: NDArray) -> Floats:
        """Sums of `values` [N] in every group [E + 1, m]."""
        n_environments, n_labels = self.shape
        sums = np.bincount(self.codes, weights=values, minlength=n_environments * n_labels)
        table = sums.reshape(n_environments, n_labels)
        return np.concatenate([table, table.sum(axis=0, keepdims=True)])

    def moments(self, values: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Weighted mean and variance of `values` [N] in every group; NaN where it is empty."""
        centre = values.mean() if len(values) else 0.0  # so that squares keep their digits
        moved = values - centre
        mass = self.total(weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.total(weights * moved) / mass
            variance = self.total(weights * moved**2) / mass - mean**2
        return mean + centre, np.maximum(variance, 0.0)

    def pairs(self) -> tuple[Ints, Ints]:
        """First and second label of every pair, in order."""
        return np.triu_indices(len(self.label_names), 1)
