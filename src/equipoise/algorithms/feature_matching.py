"""What CORAL and MMD share: features distributed alike in all environments."""

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class FeatureMatching(Algorithm, abstract=True):
    """mean_e ℓ_e + γ·mean over pairs of environments of distance(features_i, features_j)."""

    min_environments = 2
    hyperparameters: ClassVar = {
        "mmd_gamma": Hyperparameter(1.0, draw=log_uniform(-1, 1)),
    }

    def distance(self, first: Tensor, second: Tensor) -> Tensor:
        """How far apart two samples of features [N, d] are."""
        raise NotImplementedError

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        loss = torch.stack(
            [cross_entropy(self.classifier(f), y) for f, y in zip(features, labels, strict=True)]
        ).mean()
        penalty = self.penalty(features)
        objective = loss + self.settings["mmd_gamma"] * penalty
        return objective, {"loss": loss, "penalty": penalty}

    def penalty(self, features: list[Tensor]) -> Tensor:
        """The mean distance over all pairs of environments."""
        return torch.stack([self.distance(a, b) for a, b in combinations(features, 2)]).mean()
