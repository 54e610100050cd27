"""Two models, one distribution of (x, y) in every environment: what no amount of data can tell.

Theorem 3.3 compares p(x | y, e) of different labels at one x, though f being injective ties every
x to one label. A twin uses this freedom: it changes the coordinates of every label on its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.theory.mixing import draw_rotation
from equipoise.theory.scm import SyntheticSCM, gaussian_log_propensity

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class ObservationalTwin:
    """Another model with the very p(x | y, e) of an SCM, whose Z is not the same.

    For every label, z′ = R_y · twist_y(z). The twist turns pairs of directions by an angle that
    grows with their radius; it acts only where all environments of the label have one mean and
    one variance, and leaves the distribution there as it is. R_y is a rotation where variances
    are 1 and a signed permutation of the components elsewhere: both stay in the family. So
    f′_y = f_y ∘ twist_y⁻¹ ∘ R_y⁻¹ with the turned prior explains all data exactly as well.

    >>> twin = ObservationalTwin(SyntheticSCM(n_labels=6, n_environments=1, seed=0), seed=0)
    >>> twin.n_twisted  # directions of every label that one environment leaves free, in pairs
    (4, 4, 4, 4, 4, 4)
    """

    def __init__(self, scm: SyntheticSCM, *, twist: float = 1.5, seed: int = 0) -> None:
        generator = np.random.default_rng([seed, 0x7317])
        self.scm, self.twist = scm, twist
        unit = not scm.log_variances.any()
        draw = draw_rotation if unit else _draw_signed_permutation
        self._rotations = np.stack([draw(scm.n_latents, generator) for _ in range(scm.n_labels)])
        self._frames = [
            _split_directions(means, log_variances)
            for means, log_variances in zip(scm.means, scm.log_variances, strict=True)
        ]
        self.means = np.einsum("yij,yej->yei", self._rotations, scm.means)
        squares = np.square(self._rotations)  # 0 and 1 where variances are not 1 already
        variances = np.einsum("yij,yej->yei", squares, np.exp(scm.log_variances))
        self.log_variances = np.log(variances)

    @property
    def n_twisted(self) -> tuple[int, ...]:
        """How many directions of each label are twisted; its environments do not tell them."""
        return tuple(2 * (len(free) // 2) for _, free in self._frames)

    def to_twin(self, z: Floats, labels: Ints) -> Floats:
        """The twin's latent covariate of the same x [N, n]."""
        found = np.empty_like(z)
        for label, rotation in enumerate(self._rotations):
            rows = labels == label
            found[rows] = self._twist(z[rows], label, self.twist) @ rotation.T
        return found

    def from_twin(self, z: Floats, labels: Ints) -> Floats:
        """The inverse of `to_twin`."""
        found = np.empty_like(z)
        for label, rotation in enumerate(self._rotations):
            rows = labels == label
            found[rows] = self._twist(z[rows] @ rotation, label, -self.twist)
        return found

    def _twist(self, z: Floats, label: int, strength: float) -> Floats:
        varied, free = self._frames[label]
        centre = self.scm.means[label, 0]
        deviation = np.exp(0.5 * self.scm.log_variances[label, 0])
        round_z = (z - centre) / deviation
        told, untold = round_z @ varied.T, round_z @ free.T
        round_z = told @ varied + swirl_pairs(untold, strength) @ free
        return np.asarray(centre + deviation * round_z)

    def log_propensity(self, twin_z: Floats, environments: Ints) -> Floats:
        """The score [N, m] that the twin gives, by Equation 3 from its own prior."""
        return gaussian_log_propensity(twin_z, environments, self.means, self.log_variances)


def swirl_pairs(h: Floats, strength: float) -> Floats:
    """Turn columns (0, 1), (2, 3), … by `strength` times their radius; a last odd one stays."""
    turned = h.copy()
    for first in range(0, h.shape[1] - 1, 2):
        pair = h[:, first] + 1j * h[:, first + 1]
        pair = pair * np.exp(1j * strength * np.abs(pair))
        turned[:, first], turned[:, first + 1] = pair.real, pair.imag
    return turned


def _split_directions(means: Floats, log_variances: Floats) -> tuple[Floats, Floats]:
    """Orthonormal directions that a label's environments tell apart, and those they do not.

    Of means and log-variances [|E|, n]; in units of the first environment's deviations.
    """
    n = means.shape[1]
    if np.abs(log_variances - log_variances[0]).max() > 0:
        return np.eye(n), np.zeros((0, n))
    shifts = (means - means[0]) / np.exp(0.5 * log_variances[0])
    _, sizes, directions = np.linalg.svd(shifts, full_matrices=True)
    rank = int((sizes > 1e-9 * max(1.0, sizes[0])).sum())
    return directions[:rank], directions[rank:]


def _draw_signed_permutation(n: int, generator: np.random.Generator) -> Floats:
    signs = generator.choice([-1.0, 1.0], size=n)
    return np.asarray(np.eye(n)[generator.permutation(n)] * signs)
