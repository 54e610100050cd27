"""Deep CORAL (Sun and Saenko 2016)."""

from torch import Tensor

from equipoise.algorithms.distances import coral_distance
from equipoise.algorithms.feature_matching import FeatureMatching


class CORAL(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) [mean (μ_i − μ_j)² + mean (C_i − C_j)²] of the features."""

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        return coral_distance(first, second)
