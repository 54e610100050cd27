"""Synthetic structural causal models with the truth at hand, and how much of it was recovered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment
from scipy.special import log_softmax

from equipoise.balance import match_scores
from equipoise.checks import check_choice, check_count
from equipoise.latent import Identifiability, examine_identifiability

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MECHANISMS = ("shared", "per-label")
SPARE_FEATURES = 2  # beyond what the mixing needs: x lies near a surface, as images do
LOG_VARIANCE_SPREADS = (1.2, 0.48)  # between environments, and between labels of one; for k = 2
LABEL_CODE = 0.5  # how far the label moves the input of a shared mechanism


@dataclass(frozen=True)
class SyntheticSample:
    """Examples with what is never seen in real data: z and the true propensity."""

    x: Floats  # [N, features]
    labels: Ints  # [N]
    environments: Ints  # [N]
    z: NDArray[Any]  # [N, n], or codes [N]
    log_propensity: Floats  # [N, m]: log p^e(y | z)


class SyntheticSCM:
    """y and e uniform, z | y, e Gaussian, x = f_y(z) + noise (Section 2 of the paper).

    Parameters
    ----------
    n_latents, n_labels, n_environments : int
        n, m and |E|.
    statistics : int
        k: 1 varies the means of z over the pairs (y, e), 2 its variances as well.
    depth, slope : int, float
        Layers of the mixing and the slope of their leaky ReLU; a smaller one bends more.
    mechanism : str
        "shared" is one network with y as an input, "per-label" an unrelated one for each.
    environment_spread, label_spread : float
        How far environments differ in the means of z, and how far the labels within one.
    rank : int, optional
        Confine the parameters λ to so many directions, so that L is singular.
    noise : float
        Deviation of the additive noise, as a share of that of x.
    seed : int
        Fixes the model; a sample has a seed of its own.

    >>> scm = SyntheticSCM(n_latents=2, n_labels=2, n_environments=3, seed=0)
    >>> scm
    SyntheticSCM(n = 2, k = 1, 2 labels × 3 environments, 2 layers, shared mechanism)
    >>> sample = scm.sample(100, seed=1)
    >>> sample.x.shape, sample.z.shape, sample.log_propensity.shape
    ((100, 6), (100, 2), (100, 2))
    """

    def __init__(
        self,
        *,
        n_latents: int = 5,
        n_labels: int = 2,
        n_environments: int = 12,
        statistics: int = 1,
        depth: int = 2,
        slope: float = 0.3,
        mechanism: str = "shared",
        environment_spread: float = 2.0,
        label_spread: float = 0.7,
        rank: int | None = None,
        noise: float = 0.02,
        seed: int = 0,
    ) -> None:
        self.n_latents = check_count("n_latents", n_latents)
        self.n_labels = check_count("n_labels", n_labels)
        self.n_environments = check_count("n_environments", n_environments)
        self.statistics = check_count("statistics", statistics, most=2)
        if rank is not None:
            check_count("rank", rank, most=n_latents)
        self.mechanism, self.depth = check_choice("mechanism", mechanism, MECHANISMS), depth
        generator = np.random.default_rng([seed, 0x5C4])
        shape = (n_labels, n_environments, n_latents if rank is None else rank)
        self.means = _vary(shape, environment_spread, label_spread, generator)
        if rank is not None:
            self.means = self.means @ draw_rotation(n_latents, generator)[:rank]
        self.log_variances = np.zeros(self.means.shape)
        if statistics == 2 and rank is None:
            self.log_variances = _vary(shape, *LOG_VARIANCE_SPREADS, generator)
        # The label enters as a code beside z, so that f is injective in (y, z) together.
        width = n_latents + n_labels if mechanism == "shared" else n_latents
        self._mixings = tuple(
            draw_mixing(width, depth=depth, slope=slope, generator=generator)
            for _ in range(1 if mechanism == "shared" else n_labels)
        )
        n_features = n_latents + n_labels + SPARE_FEATURES
        self._embedding = draw_rotation(n_features, generator)[:, : n_latents + n_labels]
        z, labels, _ = self._draw(2000, generator)
        self._noise_deviation = noise * float(self.mix(z, labels).std())

    def mix(self, z: Floats, labels: Ints) -> Floats:
        """f_y(z) [N, features], without noise."""
        code = LABEL_CODE * np.eye(self.n_labels)[labels]
        if self.mechanism == "shared":
            return self._mixings[0].apply(np.concatenate([z, code], axis=1)) @ self._embedding.T
        mixed = np.empty_like(z)
        for label, mixing in enumerate(self._mixings):
            mixed[labels == label] = mixing.apply(z[labels == label])
        return np.concatenate([mixed, code], axis=1) @ self._embedding.T

    def sample(self, n_examples: int, *, seed: int) -> SyntheticSample:
        """Examples with their true z and propensity."""
        generator = np.random.default_rng([seed, 0x5A3])
        z, labels, environments = self._draw(n_examples, generator)
        x = self.mix(z, labels)
        x = x + self._noise_deviation * generator.normal(size=x.shape)
        return SyntheticSample(x, labels, environments, z, self.log_propensity(z, environments))

    def _draw(self, n: int, generator: np.random.Generator) -> tuple[Floats, Ints, Ints]:
        labels = generator.integers(self.n_labels, size=n)
        environments = generator.integers(self.n_environments, size=n)
        deviation = np.exp(0.5 * self.log_variances[labels, environments])
        moved = deviation * generator.normal(size=(n, self.n_latents))
        return self.means[labels, environments] + moved, labels, environments

    def log_propensity(self, z: Floats, environments: Ints) -> Floats:
        """log p^e(y | z) [N, m] (Equation 3); labels are uniform in every environment."""
        return gaussian_log_propensity(z, environments, self.means, self.log_variances)

    def natural_parameters(self) -> Floats:
        """λ^e(y) of every pair [m, |E|, n·k]."""
        precision = np.exp(-self.log_variances)
        parts = [self.means * precision, -0.5 * precision]
        return np.concatenate(parts[: self.statistics], axis=2)

    def sufficient_statistics(self, z: Floats) -> Floats:
        """T(z) [N, n·k]: z, and for k = 2 its squares."""
        return z if self.statistics == 1 else np.concatenate([z, np.square(z)], axis=1)

    def identifiability(self) -> Identifiability:
        """Condition (3) of Theorem 3.3 at the true parameters, counting pairs as the paper does."""
        seen = np.ones((self.n_labels, self.n_environments), dtype=bool)
        return examine_identifiability(self.natural_parameters(), seen)

    def __repr__(self) -> str:
        return (
            f"SyntheticSCM(n = {self.n_latents}, k = {self.statistics}, {self.n_labels} labels × "
            f"{self.n_environments} environments, {self.depth} layers, {self.mechanism} mechanism)"
        )


def gaussian_log_propensity(
    z: Floats, environments: Ints, means: Floats, log_variances: Floats
) -> Floats:
    """log p^e(y | z) [N, m] of diagonal Gaussians [m, |E|, n] with uniform labels (Equation 3)."""
    spread = log_variances[:, environments]  # [m, N, n]
    scaled = np.square(z - means[:, environments]) * np.exp(-spread)
    return np.asarray(log_softmax(-0.5 * (scaled + spread).sum(axis=2).T, axis=1))


def _vary(
    shape: tuple[int, ...], between: float, within: float, generator: np.random.Generator
) -> Floats:
    """A part that all labels of an environment share, and a part of every pair."""
    shared = generator.normal(size=(1, *shape[1:]))
    return between * shared + within * generator.normal(size=shape)


# --- mixings: random invertible maps x = f_y(z) -------------------------------------------------


@dataclass(frozen=True)
class Mixing:
    """Layers of a well-conditioned linear map and a leaky ReLU, each of which can be undone."""

    layers: tuple[tuple[Floats, Floats], ...]  # weight [width, width] and bias [width]
    slope: float

    def apply(self, h: Floats) -> Floats:
        for weight, bias in self.layers:
            h = h @ weight.T + bias
            h = np.where(h > 0, h, self.slope * h)
        return h


def draw_mixing(
    width: int, *, depth: int, slope: float = 0.2, generator: np.random.Generator
) -> Mixing:
    """A random mixing; weights are rotations times gains of 0.7 … 1.3, so no direction is lost."""
    if not 0 < slope <= 1:
        raise ValueError(f"slope must be above 0 and at most 1 to be invertible, got {slope}")
    if depth < 1:
        raise ValueError(f"depth must be at least 1 layer, got {depth}")
    layers = []
    for _ in range(depth):
        weight = draw_rotation(width, generator) * generator.uniform(0.7, 1.3, size=width)
        layers.append((weight, 0.5 * generator.normal(size=width)))
    return Mixing(tuple(layers), slope)


def draw_rotation(n: int, generator: np.random.Generator) -> Floats:
    """A random orthogonal matrix [n, n]; evenly distributed, as the signs of R are fixed."""
    q, r = np.linalg.qr(generator.normal(size=(n, n)))
    return np.asarray(q * np.sign(np.diag(r)))


def affine_r2(truth: Floats, found: Floats) -> float:
    """Share of the variance of `truth` [N, p] that an affine map of `found` [N, q] explains.

    1 means equal up to ∼_A of Definition 3.2. The map is fitted on every other row and judged
    on the rest; the mean over columns.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(affine_r2(z, z @ [[1.0, 2.0], [0.0, 3.0]] + 5.0), 6)
    1.0
    """
    missed = np.square(_miss(truth, found)).mean(axis=0)
    return float(np.mean(1.0 - missed / truth[1::2].var(axis=0)))


def worst_direction_r2(truth: Floats, found: Floats) -> float:
    """The least of `affine_r2` over all directions of `truth`, not only its columns.

    A direction that varies little hides in the mean over columns; Definition 3.2 asks for it too.

    >>> z = np.random.default_rng(0).normal(size=(1000, 2)) * [10.0, 1.0]
    >>> turned = z @ [[0.6, 0.8], [-0.8, 0.6]]
    >>> affine_r2(turned, z[:, :1]) > 0.95, worst_direction_r2(turned, z[:, :1]) < 0.05
    (True, True)
    """
    missed = _miss(truth, found)
    left = missed.T @ missed / len(missed)
    return float(1.0 - eigh(left, np.cov(truth[1::2].T), eigvals_only=True)[-1])


def average_within(
    measure: Callable[[Floats, Floats], float], truth: Floats, found: Floats, labels: Ints
) -> float:
    """The mean of a measure over labels: every label may have an affine map of its own."""
    members = [labels == label for label in np.unique(labels)]
    return float(np.mean([measure(truth[rows], found[rows]) for rows in members]))


def mean_correlation(truth: Floats, found: Floats) -> float:
    """MCC: |correlation| of components, paired so that their sum is the largest.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(mean_correlation(z, -z[:, ::-1]), 6)
    1.0
    """
    n = truth.shape[1]
    correlation = np.abs(np.corrcoef(truth.T, found.T)[:n, n:])
    return float(correlation[linear_sum_assignment(correlation, maximize=True)].mean())


def score_distance(log_truth: Floats, log_found: Floats) -> float:
    """Mean total variation between true and learned propensities [N, m]; 0 is recovery.

    >>> score_distance(np.log([[0.5, 0.5]]), np.log([[0.8, 0.2]])).__round__(6)
    0.3
    """
    return float(0.5 * np.abs(np.exp(log_truth) - np.exp(log_found)).sum(axis=1).mean())


def match_distance(log_truth: Floats, log_used: Floats, labels: Ints, environments: Ints) -> float:
    """Mean total variation of *true* propensities between anchors and matches by `log_used`."""
    nearest = match_scores(log_used, labels, environments).indices[:, :, 0]  # [N, m]
    anchors, others = np.nonzero(nearest >= 0)
    true = np.exp(log_truth)
    apart = np.abs(true[anchors] - true[nearest[anchors, others]])
    return float(0.5 * apart.sum(axis=1).mean())


def _miss(truth: Floats, found: Floats) -> Floats:
    """What an affine map of `found`, fitted on every other row, misses of the rest."""
    inputs = np.concatenate([found, np.ones((len(found), 1))], axis=1)
    solution = np.linalg.lstsq(inputs[::2], truth[::2], rcond=None)[0]
    return np.asarray(truth[1::2] - inputs[1::2] @ solution)
