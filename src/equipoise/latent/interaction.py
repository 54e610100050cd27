"""The joint test that no link with the label varies: interaction against flipped residuals.

The cell means of a feature are label effect + environment effect; what they show beyond is the
interaction. Its size, in features, directions, squares and products, is compared with data
sets in which the signs of the residuals are random.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from equipoise.latent.cells import Cells, Floats, Ints
from equipoise.latent.columns import Features
from equipoise.latent.curves import CURVED, make_curved

DRAWS = 1999
#: Directions are sought among so many leading components, and among all up to the last number.
LEADING = (8, 16, 32, 64, 256)
#: Sums over the so many strongest features.
STRONGEST = (1, 2, 4, 8, 16)
_AT_ONCE = 100


@dataclass(frozen=True)
class FlipTest:
    """A joint test of several statistics against flipped residuals."""

    p_value: float
    observed: dict[str, float]
    expected: dict[str, float]
    p_values: dict[str, float]
    excess: dict[str, float]  # deviations above the null, on the log scale
    null: dict[str, NDArray] = field(repr=False)  # the same of each draw
    scale: dict[str, tuple[float, float]] = field(repr=False)  # mean and deviation of null logs

    def test_jointly(self, names: list[str]) -> float:
        """The p-value of the most extreme of some statistics, which allows for their number."""
        largest = np.max([self.null[name] for name in names], axis=0)
        observed = max(self.excess[name] for name in names)
        return float((1 + (largest >= observed).sum()) / (len(largest) + 1))

    def count_beyond(self, name: str, values: Floats, level: float) -> int:
        """How many values of a statistic exceed what it reaches by chance with this level."""
        centre, spread = self.scale[name]
        limit = float(np.quantile(self.null[name], 1 - level))
        return int(((np.log(values + 1e-12) - centre) / spread > limit).sum())

    def best(self, names: list[str]) -> str:
        return max(names, key=lambda name: self.excess[name])


class InteractionTests:
    """Statistics of a matrix of residuals, and what random signs make of them.

    Columns side by side: features, leading components (white), curved features.
    """

    def __init__(
        self,
        residual: Floats,
        cells: Cells,
        curved: Floats | None = None,
        n_pairs: int = 0,
        ordered_by: Floats | None = None,
    ) -> None:
        self.cells, self.q = cells, residual.shape[1]
        self.whitening = find_whitening(residual, cells.weights, ordered_by)[:, : LEADING[-1]]
        white = residual @ self.whitening
        parts = [residual, white] + ([] if curved is None else [curved])
        self.matrix = np.concatenate(parts, axis=1)
        self.spread = (residual**2).mean(axis=0) + 1e-12
        widths = [w for w in LEADING if w < white.shape[1]] + [white.shape[1]]
        self.statistics: dict[str, Callable[[NDArray], NDArray]] = {}
        for count in STRONGEST:
            if count == 1 or 2 * count <= self.q:
                name = "strongest feature" if count == 1 else f"{count} strongest features"
                self.statistics[name] = self._sum_strongest(count)
        for width in filter(None, widths):
            self.statistics[f"direction of {width}"] = self._largest_root(width)
            self.statistics[f"sum of {width}"] = self._sum_white(width)
        if curved is not None:
            start, spread = self.q + white.shape[1], (curved**2).mean(axis=0) + 1e-12
            n_squares = curved.shape[1] - n_pairs
            parts_of = slice(0, n_squares), slice(n_squares, None)
            for name, part in zip(CURVED, parts_of, strict=True):
                if len(spread[part]):
                    self.statistics[name] = self._strongest(start, part, spread[part])

    def _sum_strongest(self, count: int) -> Callable[[NDArray], NDArray]:
        def statistic(m: NDArray) -> NDArray:
            strength = (m[..., : self.q] ** 2).sum(axis=-2) / self.spread
            kept = np.partition(strength, self.q - count, axis=-1)[..., self.q - count :]
            return np.asarray(kept.sum(axis=-1))

        return statistic

    def _largest_root(self, width: int) -> Callable[[NDArray], NDArray]:
        def statistic(m: NDArray) -> NDArray:
            z = m[..., self.q : self.q + width]
            turned = np.swapaxes(z, -1, -2)
            gram = z @ turned if z.shape[-2] <= width else turned @ z
            return np.asarray(np.linalg.eigvalsh(gram)[..., -1])

        return statistic

    def _sum_white(self, width: int) -> Callable[[NDArray], NDArray]:
        def statistic(m: NDArray) -> NDArray:
            return np.asarray((m[..., self.q : self.q + width] ** 2).sum(axis=(-2, -1)))

        return statistic

    def _strongest(self, start: int, part: slice, spread: Floats) -> Callable[[NDArray], NDArray]:
        def statistic(m: NDArray) -> NDArray:
            return np.asarray(((m[..., start:][..., part] ** 2).sum(axis=-2) / spread).max(axis=-1))

        return statistic

    def strengths(self) -> Floats:
        """The interaction of each feature, in units of its variance."""
        return self.cells.strengths(self.matrix[:, : self.q])

    def run(self, rng: np.random.Generator, draws: int = DRAWS) -> FlipTest:
        """p-values by rank among the draws; the joint one is of the most extreme statistic."""
        observed = self.cells.interaction(self.matrix)[None]
        groups = self.cells.group_residuals(self.matrix, rng)
        found: dict[str, list[NDArray]] = {name: [] for name in self.statistics}
        for start in range(0, draws, _AT_ONCE):
            flipped = self.cells.draw_flips(groups, rng, min(_AT_ONCE, draws - start))
            for name, statistic in self.statistics.items():
                found[name].append(statistic(flipped))
        seen = {name: float(s(observed)[0]) for name, s in self.statistics.items()}
        null = {name: np.concatenate(parts) for name, parts in found.items()}
        alone = {k: (1 + int((null[k] >= seen[k]).sum())) / (draws + 1) for k in seen}
        # On the log scale, in deviations of the null: statistics are then comparable.
        logs = {k: np.log(values + 1e-12) for k, values in null.items()}
        centre = {k: float(values.mean()) for k, values in logs.items()}
        spread = {k: float(values.std()) + 1e-9 for k, values in logs.items()}
        excess = {k: (float(np.log(seen[k] + 1e-12)) - centre[k]) / spread[k] for k in seen}
        expected = {k: float(np.median(values)) for k, values in null.items()}
        standard = {k: (values - centre[k]) / spread[k] for k, values in logs.items()}
        scale = {k: (centre[k], spread[k]) for k in seen}
        test = FlipTest(np.nan, seen, expected, alone, excess, standard, scale)
        return replace(test, p_value=test.test_jointly(list(seen)))

    def find_directions(self, width: int, among: Ints | None = None) -> tuple[Floats, Floats]:
        """Interactions [k] and directions [q, k], largest first, among components or features."""
        residual = self.matrix[:, : self.q]
        if among is None:
            whitening = self.whitening[:, :width]
        else:
            own = find_whitening(residual[:, among], self.cells.weights)
            whitening = np.zeros((self.q, own.shape[1]))
            whitening[among] = own
        z = self.cells.interaction(residual) @ whitening
        _, roots, turned = np.linalg.svd(z, full_matrices=False)
        return roots**2, whitening @ turned.T


def compare_interaction(
    features: Features,
    labels: Ints,
    environments: Ints,
    weights: Floats | None = None,
    *,
    rng: np.random.Generator,
    draws: int = DRAWS,
) -> FlipTest:
    """Test jointly whether any link with the label varies: features, directions and curves."""
    if weights is not None and not weights.all():
        used = np.flatnonzero(weights)
        features, weights = replace(features, values=features.values[used]), weights[used]
        labels, environments = labels[used], environments[used]
    cells = Cells.of(labels, environments, weights)
    residual = find_residual(features, cells)
    curved, pairs = make_curved(residual, features, cells)
    whole = find_whole(features.values, residual, cells)
    n_pairs = sum(a != b for a, b in pairs)
    return InteractionTests(residual, cells, curved, n_pairs, whole).run(rng, draws)


def find_residual(features: Features, cells: Cells) -> Floats:
    """Residuals of the features, exactly 0 where labels and environments determine them."""
    residual = cells.residual(features.values)
    residual[:, residual.std(axis=0) < 1e-6] = 0.0
    return residual


def find_whole(values: Floats, residual: Floats, cells: Cells) -> Floats:
    """The features without environment effects, label effects kept."""
    own = values - cells.environment_effects(values)[cells.environments]
    own = own - own.mean(axis=0)
    own[:, ~residual.any(axis=0)] = 0.0
    return np.asarray(own)


def find_whitening(residual: Floats, weights: Floats, ordered_by: Floats | None = None) -> Floats:
    """Components [q, k] of unit variance, of a covariance shrunk to a multiple of the identity
    (Ledoit and Wolf 2004), leading first by the variance of `ordered_by`."""
    n, q = residual.shape
    root = np.sqrt(weights / weights.mean())[:, None]
    x = residual * root
    covariance = x.T @ x / n
    centre = np.trace(covariance) / q
    distance = ((covariance - centre * np.eye(q)) ** 2).sum() / q
    squares = x**2
    noise = ((squares.sum(axis=1) ** 2).sum() / n - (covariance**2).sum()) / (n * q)
    share = min(1.0, max(noise, 0.0) / max(distance, 1e-12))
    values, vectors = np.linalg.eigh(covariance)
    # Components without variance are linear combinations of others.
    keep = values > 1e-6 * max(values[-1], 1e-12)
    shrunk = (1 - share) * values[keep] + share * centre
    whitening = vectors[:, keep] / np.sqrt(shrunk)
    if ordered_by is None:
        return np.asarray(whitening[:, ::-1])
    # Leading components of the whole, each freed of those before it.
    y = ordered_by * root
    leading = np.linalg.eigh(y.T @ y / n)[1][:, ::-1]
    turned, _ = np.linalg.qr((leading.T @ vectors[:, keep] * np.sqrt(shrunk)).T)
    return np.asarray(whitening @ turned)
