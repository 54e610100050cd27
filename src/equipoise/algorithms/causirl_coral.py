"""Causality-based invariant representation learning with CORAL's distance."""

from torch import Tensor

from equipoise.algorithms.causirl import CausIRL
from equipoise.algorithms.distances import coral_distance


class CausIRL_CORAL(CausIRL):
    """mean_e ℓ_e + γ·[mean (μ_1 − μ_2)² + mean (C_1 − C_2)²] of two random mixtures."""

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        return coral_distance(first, second)
