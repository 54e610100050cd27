"""Two models, one distribution of (x, y) in every environment: what no amount of data can tell.

A twin changes the coordinates of every label on its own: f being injective ties x to one label.
"""

from __future__ import annotations

import numpy as np

from equipoise.theory.scm import (
    Floats,
    Ints,
    SyntheticSCM,
    draw_rotation,
    gaussian_log_propensity,
)

SWIRL = 1.5  # radians of a turn at radius 1
FLOW_TIME, FLOW_STEPS = 2.0, 100  # of each flow; typical speed 1
ROUNDS = 2  # swirls or flows, one after the other, each along other directions


class ObservationalTwin:
    """Another model with the very p(x | y, e) of an SCM, whose Z is not the same.

    For every label, z′ = R_y · twist_y(z). The twist moves z where no density of the label's
    environments changes (see `find_freedom`). R_y is a rotation where variances are 1 and a
    signed permutation of the components elsewhere: both stay in the family. So
    f′_y = f_y ∘ twist_y⁻¹ ∘ R_y⁻¹ with the turned prior explains all data exactly as well.

    >>> twin = ObservationalTwin(SyntheticSCM(n_labels=6, n_environments=1, seed=0), seed=0)
    >>> twin.n_twisted  # directions of every label that one environment leaves free
    (5, 5, 5, 5, 5, 5)
    """

    def __init__(self, scm: SyntheticSCM, *, seed: int = 0) -> None:
        generator = np.random.default_rng([seed, 0x7317])
        self.scm = scm
        unit = not scm.log_variances.any()
        draw = draw_rotation if unit else _draw_signed_permutation
        self._rotations = np.stack([draw(scm.n_latents, generator) for _ in range(scm.n_labels)])
        self._twists = [
            find_freedom(means, log_variances, generator)
            for means, log_variances in zip(scm.means, scm.log_variances, strict=True)
        ]
        self.means = np.einsum("yij,yej->yei", self._rotations, scm.means)
        squares = np.square(self._rotations)  # 0 and 1 where variances are not 1 already
        self.log_variances = np.log(np.einsum("yij,yej->yei", squares, np.exp(scm.log_variances)))

    @property
    def n_twisted(self) -> tuple[int, ...]:
        """How many directions of each label its environments do not tell."""
        return tuple(0 if twist is None else twist.n_directions for twist in self._twists)

    def to_twin(self, z: Floats, labels: Ints) -> Floats:
        """The twin's latent covariate of the same x [N, n]."""
        found = np.empty_like(z)
        for label, (twist, rotation) in enumerate(zip(self._twists, self._rotations, strict=True)):
            own = z[labels == label]
            found[labels == label] = (own if twist is None else twist.apply(own)) @ rotation.T
        return found

    def log_propensity(self, twin_z: Floats, environments: Ints) -> Floats:
        """The score [N, m] that the twin gives, by Equation 3 from its own prior."""
        return gaussian_log_propensity(twin_z, environments, self.means, self.log_variances)


def _draw_signed_permutation(n: int, generator: np.random.Generator) -> Floats:
    signs = generator.choice([-1.0, 1.0], size=n)
    return np.asarray(np.eye(n)[generator.permutation(n)] * signs)


# --- maps of z that change no density of a label's environments ---------------------------------


class Swirl:
    """Turns within the directions in which all environments have one mean and one variance.

    There z is round, and turning a pair of directions by an angle that grows with their radius
    keeps it so. Exact, but only where environments differ in means alone.
    """

    def __init__(self, means: Floats, log_variances: Floats, generator: np.random.Generator):
        self._centre = means[0]
        self._deviation = np.exp(0.5 * log_variances[0])
        _, sizes, directions = np.linalg.svd((means - means[0]) / self._deviation)
        rank = int((sizes > 1e-9 * max(1.0, sizes[0])).sum())
        self._told, free = directions[:rank], directions[rank:]
        turns = [draw_rotation(len(free), generator) for _ in range(ROUNDS)]
        # Without reflections: mirrored, a second swirl in a plane would undo the first.
        mirrored = np.where(np.arange(len(free)), 1, -1)
        self._frames = [(t if np.linalg.det(t) > 0 else t * mirrored) @ free for t in turns]
        self.n_directions = len(free) if len(free) > 1 else 0

    def apply(self, z: Floats) -> Floats:
        round_z = (z - self._centre) / self._deviation
        told = round_z @ self._told.T @ self._told
        for frame in self._frames:
            round_z = told + swirl_pairs(round_z @ frame.T) @ frame
        return np.asarray(self._centre + self._deviation * round_z)


class LevelFlow:
    """A flow along the surfaces on which the densities of all environments are constant.

    The velocity is the generalised cross product of the gradients of their logarithms and of
    some linear functions: at right angles to each gradient, so no density changes, and free of
    divergence, so no volume does. A factor that is constant along the flow keeps its speed even.
    Exact but for the integration (fourth order Runge–Kutta).
    """

    def __init__(self, means: Floats, log_variances: Floats, generator: np.random.Generator):
        n = means.shape[1]
        self._means, self._precisions = means, np.exp(-log_variances)
        functions = np.concatenate([self._precisions, -self._precisions * means], axis=1)
        _, sizes, basis = np.linalg.svd(functions, full_matrices=False)
        basis = basis[sizes > 1e-9 * sizes[0]]
        self._quadratic, self._linear = basis[:, :n], basis[:, n:]
        n_free = n - 1 - len(basis)
        self.n_directions = max(0, n_free + 1)
        self._others = generator.normal(size=(ROUNDS, max(0, n_free), n))
        draws = means[0] + np.exp(0.5 * log_variances[0]) * generator.normal(size=(500, n))
        self._speeds = np.ones(ROUNDS)
        if self.n_directions:
            speeds = [self._pace(draws) * self._velocity(draws, other) for other in self._others]
            self._speeds = np.median(np.linalg.norm(speeds, axis=2), axis=1)

    def apply(self, z: Floats) -> Floats:
        for other, speed in zip(self._others, self._speeds, strict=True):
            pace = FLOW_TIME / FLOW_STEPS / speed * self._pace(z)
            for _ in range(FLOW_STEPS):
                first = pace * self._velocity(z, other)
                second = pace * self._velocity(z + first / 2, other)
                third = pace * self._velocity(z + second / 2, other)
                fourth = pace * self._velocity(z + third, other)
                z = z + (first + 2 * second + 2 * third + fourth) / 6
        return z

    def _velocity(self, z: Floats, other: Floats) -> Floats:
        own = self._quadratic * z[:, None] + self._linear  # [N, functions, n]
        gradients = np.concatenate([own, np.broadcast_to(other, (len(z), *other.shape))], axis=1)
        columns = np.arange(z.shape[1])
        signed = [
            (-1) ** i * np.linalg.det(gradients[:, :, columns != i]) for i in range(z.shape[1])
        ]
        return np.stack(signed, axis=1)

    def _pace(self, z: Floats) -> Floats:
        """Less where the gradients are steep, by a function of the densities alone [N, 1]."""
        squares = np.square(z[:, None] - self._means) * self._precisions
        return np.asarray(np.prod(1.0 + 0.5 * squares.sum(axis=2), axis=1) ** -0.5)[:, None]


def find_freedom(
    means: Floats, log_variances: Floats, generator: np.random.Generator
) -> Swirl | LevelFlow | None:
    """A map that the environments of one label [|E|, n] cannot tell; None if there is none.

    >>> generator = np.random.default_rng(0)
    >>> means = generator.normal(size=(3, 5))  # three environments tell two directions of five
    >>> find_freedom(means, np.zeros((3, 5)), generator).n_directions
    3
    >>> find_freedom(generator.normal(size=(6, 5)), np.zeros((6, 5)), generator) is None
    True
    """
    varied = np.abs(log_variances - log_variances[0]).max() > 0
    found = (LevelFlow if varied else Swirl)(means, log_variances, generator)
    return found if found.n_directions else None


def swirl_pairs(h: Floats) -> Floats:
    """Turn columns (0, 1), (2, 3), … by `SWIRL` times their radius; a last odd one stays."""
    turned = h.copy()
    for first in range(0, h.shape[1] - 1, 2):
        pair = h[:, first] + 1j * h[:, first + 1]
        pair = pair * np.exp(1j * SWIRL * np.abs(pair))
        turned[:, first], turned[:, first + 1] = pair.real, pair.imag
    return turned
