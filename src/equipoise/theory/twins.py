"""Two models, one distribution of (x, y) in every environment: what no amount of data can tell.

Theorem 3.3 compares p(x | y, e) of different labels at one x, though f being injective ties every
x to one label. A twin uses this freedom: it changes the coordinates of every label on its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.theory.freedoms import find_freedom
from equipoise.theory.mixing import draw_rotation
from equipoise.theory.scm import SyntheticSCM, gaussian_log_propensity

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
        variances = np.einsum("yij,yej->yei", squares, np.exp(scm.log_variances))
        self.log_variances = np.log(variances)

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

    def from_twin(self, z: Floats, labels: Ints) -> Floats:
        """The inverse of `to_twin`."""
        found = np.empty_like(z)
        for label, (twist, rotation) in enumerate(zip(self._twists, self._rotations, strict=True)):
            own = z[labels == label] @ rotation
            found[labels == label] = own if twist is None else twist.undo(own)
        return found

    def log_propensity(self, twin_z: Floats, environments: Ints) -> Floats:
        """The score [N, m] that the twin gives, by Equation 3 from its own prior."""
        return gaussian_log_propensity(twin_z, environments, self.means, self.log_variances)


def _draw_signed_permutation(n: int, generator: np.random.Generator) -> Floats:
    signs = generator.choice([-1.0, 1.0], size=n)
    return np.asarray(np.eye(n)[generator.permutation(n)] * signs)
