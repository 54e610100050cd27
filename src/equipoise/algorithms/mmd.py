"""Maximum mean discrepancy (Li et al. 2018)."""

from torch import Tensor

from equipoise.algorithms.distances import mmd_distance
from equipoise.algorithms.feature_matching import FeatureMatching


class MMD(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) MMD²(features_i, features_j), with a sum of Gaussian kernels."""

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        return mmd_distance(first, second)
