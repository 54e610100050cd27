"""Worlds small enough for Bayes' rule: the risk of a classifier in any environment, exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

N_VIEWS = 6  # features that show the covariate; the label has one
VIEW_NOISE = 0.5


class World(ABC):
    """Two labels; x = (u, views): u tells of the label, the views of the covariate, no more.

    So Y and Z are independent given X in the balanced environment, as Theorem 2.4 assumes.
    An environment is one number, how Z goes with Y; 0 is balanced.
    """

    name: str
    grid: tuple[float, ...]
    training: tuple[float, ...]

    @abstractmethod
    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        """Cross-entropy and error in environment `within` of p^e(Y|X) with e = `of`."""

    @abstractmethod
    def sample(
        self, environment: float, n_examples: int, generator: np.random.Generator
    ) -> tuple[Floats, Ints]:
        """Examples x [N, 1 + N_VIEWS] and labels [N] of an environment."""

    def worst_bayes_risk(self, of: float) -> tuple[float, float]:
        """The largest cross-entropy and the largest error over the grid."""
        risks = np.array([self.bayes_risk(of, within) for within in self.grid])
        return float(risks[:, 0].max()), float(risks[:, 1].max())


@dataclass(frozen=True)
class DiscreteWorld(World):
    """Two bits, ColoredMNIST without pixels: u is y flipped with `flip`, z agrees with y or not.

    An environment r has p(z = y | y) = (1 + r) / 2.

    >>> world = DiscreteWorld()
    >>> cross_entropy, error = world.bayes_risk(0.0, 0.9)
    >>> round(error, 3)
    0.25
    """

    flip: float = 0.25
    grid: tuple[float, ...] = tuple(np.round(np.arange(-0.9, 0.91, 0.1), 1).tolist())
    training: tuple[float, ...] = (0.8, 0.6)
    name = "discrete"

    def joint(self, environment: float) -> Floats:
        """p(y, u, z) [2, 2, 2]."""
        agree = np.array([[1 + environment, 1 - environment], [1 - environment, 1 + environment]])
        told = np.array([[1 - self.flip, self.flip], [self.flip, 1 - self.flip]])
        return np.asarray(0.5 * told[:, :, None] * (agree / 2)[:, None, :])

    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        own, truth = self.joint(of), self.joint(within)
        posterior = own / own.sum(axis=0)
        cross_entropy = -(truth * np.log(posterior)).sum()
        # A tie is decided by a coin.
        right = (posterior == posterior.max(axis=0)) / (posterior == posterior.max(axis=0)).sum(0)
        return float(cross_entropy), float(1.0 - (truth * right).sum())

    def sample(
        self, environment: float, n_examples: int, generator: np.random.Generator
    ) -> tuple[Floats, Ints]:
        labels = generator.integers(2, size=n_examples)
        u = np.where(generator.random(n_examples) < self.flip, 1 - labels, labels)
        z = np.where(generator.random(n_examples) < (1 + environment) / 2, labels, 1 - labels)
        return _show(2.0 * u - 1.0, 2.0 * z - 1.0, generator), labels


@dataclass(frozen=True)
class GaussianWorld(World):
    """u ~ N(±shift, 1), z ~ N(±r, 1) in environment r, the sign being the label's.

    The views show z with little noise; their mean is all they tell. The log-odds of a Bayes
    classifier are linear in u and that mean, so its risk is an integral over one Gaussian.

    >>> world = GaussianWorld()
    >>> round(world.bayes_risk(0.0, -1.5)[1], 3) == round(world.bayes_risk(0.0, 1.5)[1], 3)
    True
    """

    shift: float = 0.75
    grid: tuple[float, ...] = tuple(np.round(np.arange(-1.5, 1.51, 0.25), 2).tolist())
    training: tuple[float, ...] = (1.0, 0.5)
    name = "Gaussian"

    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        variance = 1.0 + VIEW_NOISE**2 / N_VIEWS
        on_u, on_views = 2.0 * self.shift, 2.0 * of / variance
        # Sign of the label times the log-odds: a Gaussian.
        mean = on_u * self.shift + on_views * within
        deviation = np.sqrt(on_u**2 + on_views**2 * variance)
        points, weights = np.polynomial.hermite_e.hermegauss(101)
        weights = weights / weights.sum()
        cross_entropy = weights @ np.logaddexp(0.0, -(mean + deviation * points))
        return float(cross_entropy), float(norm.cdf(-mean / deviation))

    def sample(
        self, environment: float, n_examples: int, generator: np.random.Generator
    ) -> tuple[Floats, Ints]:
        labels = generator.integers(2, size=n_examples)
        sign = 2.0 * labels - 1.0
        u = self.shift * sign + generator.normal(size=n_examples)
        z = environment * sign + generator.normal(size=n_examples)
        return _show(u, z, generator), labels


def tilted_risks(flips: tuple[float, float], tilt: float) -> tuple[float, float]:
    """Cross-entropy in each label of the Bayes classifier of Y ⊥ Z with p(Y = 1) = `tilt`.

    u is flipped with another probability in each label. No balanced environment: the labels
    are independent of Z but not uniform. See `find_best_tilt`.
    """
    told = np.array([[1 - flips[0], flips[0]], [flips[1], 1 - flips[1]]])  # p(u | y)
    posterior = told * np.array([[1 - tilt], [tilt]])
    posterior /= posterior.sum(axis=0)
    losses = -(told * np.log(posterior)).sum(axis=1)
    return float(losses[0]), float(losses[1])


def find_best_tilt(flips: tuple[float, float]) -> tuple[float, float, float]:
    """The tilt whose worst label has the least risk, that risk, and the balanced classifier's.

    Where environments may have any p(Y), the worst case is the worse label. Unless both labels
    are told equally well, a classifier with Y ⊥ Z and other label frequencies has the smaller
    worst-case risk than the balanced one: Theorem 2.4 needs environments with uniform labels.

    >>> tilt, best, balanced = find_best_tilt((0.05, 0.4))
    >>> best < balanced
    True
    """
    tilts = np.linspace(0.01, 0.99, 981)
    worst = [max(tilted_risks(flips, float(tilt))) for tilt in tilts]
    best = int(np.argmin(worst))
    return float(tilts[best]), worst[best], max(tilted_risks(flips, 0.5))


def _show(u: Floats, z: Floats, generator: np.random.Generator) -> Floats:
    """u as it is, and z in `N_VIEWS` features with noise."""
    views = z[:, None] + VIEW_NOISE * generator.normal(size=(len(z), N_VIEWS))
    return np.concatenate([u[:, None], views], axis=1)
