"""What CausIRL_CORAL and CausIRL_MMD share (Chevalley et al. 2022)."""

import torch
from torch import Tensor

from equipoise.algorithms.feature_matching import FeatureMatching


class CausIRL(FeatureMatching, abstract=True):
    """mean_e ℓ_e + γ·distance(first pool, second pool).

    Each environment's features are cut at a random place; the pieces before the cuts form one
    pool, those after them the other: two random mixtures of the environments, which should not
    differ. No penalty where a pool has fewer than two examples.
    """

    def penalty(self, features: list[Tensor]) -> Tensor:
        cuts = [int(torch.randint(len(f), (), generator=self.generator)) for f in features]
        first = torch.cat([f[:cut] for f, cut in zip(features, cuts, strict=True)])
        second = torch.cat([f[cut:] for f, cut in zip(features, cuts, strict=True)])
        if min(len(first), len(second)) < 2:
            return features[0].new_zeros(())
        return self.distance(first, second)
