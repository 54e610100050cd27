"""(label, environment) cells: main effects, interaction, and its null by flipped residuals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Level of the first test, and of every later one.
LEVEL, NEXT_LEVEL = 0.01, 0.005
#: What is found later must show this share of the first one's interaction: with very many examples
#: the slightest curvature is significant.
NEGLIGIBLE = 0.05
#: Residuals of a cell are summed in at most so many random groups before signs are flipped.
GROUPS_OF_CELL = 128


@dataclass(frozen=True)
class Cells:
    """Examples sorted into (label, environment) cells, each with a weight.

    The model of a feature is label effect + environment effect; what cell means show beyond
    is the interaction. Cells without examples are left out.
    """

    labels: Ints
    environments: Ints
    weights: Floats  # [N]
    order: Ints  # [N] examples sorted by cell
    starts: Ints  # [C + 1]
    cell_labels: Ints  # [C]
    cell_environments: Ints  # [C]
    sizes: Floats  # [C] total weight
    cell: Ints  # [N] the cell of each example

    @classmethod
    def of(cls, labels: Ints, environments: Ints, weights: Floats | None = None) -> Cells:
        weights = np.ones(len(labels)) if weights is None else weights
        m = int(labels.max()) + 1
        codes, cell = np.unique(environments * m + labels, return_inverse=True)
        order = np.argsort(cell, kind="stable")
        return cls(
            labels,
            environments,
            weights,
            order,
            np.searchsorted(cell[order], np.arange(len(codes) + 1)),
            codes % m,
            codes // m,
            np.bincount(cell, weights=weights).astype(np.float64),
            cell,
        )

    @property
    def n_environments(self) -> int:
        return int(self.cell_environments.max()) + 1

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the interaction."""
        return len(self.sizes) - int(self._additive().shape[1])

    def means(self, values: Floats) -> Floats:
        """Weighted cell means [C, q]."""
        rows = (values * self.weights[:, None])[self.order]
        return np.add.reduceat(rows, self.starts[:-1], axis=0) / self.sizes[:, None]

    def residual(self, values: Floats) -> Floats:
        """What is left of each row without label and environment effects."""
        means = self.means(values)
        basis, root = self._additive(), np.sqrt(self.sizes)[:, None]
        fitted = basis @ (basis.T @ (root * means)) / root
        return np.asarray(values - fitted[self.cell])

    def within(self, values: Floats) -> Floats:
        """What is left of each row without its cell's mean."""
        return np.asarray(values - self.means(values)[self.cell])

    def environment_effects(self, values: Floats) -> Floats:
        """The additive effect of every environment [E, q], centred; labels are accounted for."""
        design = self._design()
        root = np.sqrt(self.sizes)[:, None]
        effects = np.linalg.lstsq(root * design, root * self.means(values), rcond=None)[0]
        own = effects[int(self.cell_labels.max()) + 1 :]
        return np.asarray(own - own.mean(axis=0))

    def interaction(self, residual: Floats) -> Floats:
        """Cell sums of residuals over the root of the cell's size [C, q], main effects out."""
        return self._project(self.means(residual) * np.sqrt(self.sizes)[:, None])

    def draw_flips(self, groups: list[NDArray], rng: np.random.Generator, n: int) -> NDArray:
        """`interaction` of n data sets whose residuals have random signs [n, C, q]."""
        sums = np.empty((len(groups), n, groups[0].shape[1]), dtype=np.float32)
        for cell, rows in enumerate(groups):
            signs = rng.integers(0, 2, size=(n, len(rows)), dtype=np.int8) * np.float32(2) - 1
            sums[cell] = signs.astype(np.float32) @ rows
        flat = self._project(sums.reshape(len(groups), -1))
        return flat.reshape(sums.shape).transpose(1, 0, 2)

    def strengths(self, residual: Floats) -> Floats:
        """The interaction of each column [q], in units of its variance."""
        spread = (residual**2).mean(axis=0) + 1e-12
        return np.asarray((self.interaction(residual) ** 2).sum(axis=0) / spread)

    def largest_by_chance(
        self, residual: Floats, rng: np.random.Generator, level: float, draws: int = 499
    ) -> float:
        """The point that the strongest column's interaction exceeds by chance with this level."""
        spread = (residual**2).mean(axis=0) + 1e-12
        flipped = self.draw_flips(self.group_residuals(residual, rng), rng, draws)
        return float(np.quantile(((flipped**2).sum(axis=1) / spread).max(axis=1), 1 - level))

    def group_residuals(self, residual: Floats, rng: np.random.Generator) -> list[NDArray]:
        """Weighted residuals of each cell, summed in random groups, over the root of its size."""
        groups = []
        for cell, (start, stop) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            rows = self.order[start:stop]
            own = residual[rows] * self.weights[rows, None]
            if len(rows) > GROUPS_OF_CELL:
                own = own[rng.permutation(len(rows))]
                edges = np.linspace(0, len(rows), GROUPS_OF_CELL + 1).astype(np.int64)[:-1]
                own = np.add.reduceat(own, edges, axis=0)
            groups.append((own / np.sqrt(self.sizes[cell])).astype(np.float32))
        return groups

    def _design(self) -> Floats:
        m = int(self.cell_labels.max()) + 1
        design = np.zeros((len(self.sizes), m + self.n_environments))
        rows = np.arange(len(self.sizes))
        design[rows, self.cell_labels] = 1.0
        design[rows, m + self.cell_environments] = 1.0
        return design

    def _additive(self) -> Floats:
        """An orthonormal basis [C, rank] of what main effects can explain of cell means."""
        left, values, _ = np.linalg.svd(
            np.sqrt(self.sizes)[:, None] * self._design(), full_matrices=False
        )
        return np.asarray(left[:, values > 1e-9 * values[0]])

    def _project(self, sums: NDArray) -> NDArray:
        basis = self._additive().astype(sums.dtype)
        return np.asarray(sums - basis @ (basis.T @ sums))
