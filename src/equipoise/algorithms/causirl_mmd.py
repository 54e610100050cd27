"""Causality-based invariant representation learning with the MMD."""

from torch import Tensor

from equipoise.algorithms.causirl import CausIRL
from equipoise.algorithms.distances import mmd_distance


class CausIRL_MMD(CausIRL):
    """mean_e ℓ_e + γ·MMD² of two random mixtures of the environments."""

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        return mmd_distance(first, second)
