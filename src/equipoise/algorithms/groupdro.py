"""Group distributionally robust optimisation (Sagawa et al. 2020)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Featurizer, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class GroupDRO(Algorithm):
    """Σ_e q_e ℓ_e, where first q_e ← q_e·exp(η ℓ_e), normalised: the worst environments count."""

    hyperparameters: ClassVar = {
        "groupdro_eta": Hyperparameter(1e-2, draw=log_uniform(-3, -1)),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.q: Tensor
        self.register_buffer("q", torch.full((self.n_environments,), 1 / self.n_environments))

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        losses = torch.stack(
            [cross_entropy(self.classifier(f), y) for f, y in zip(features, labels, strict=True)]
        )
        grown = self.q * (self.settings["groupdro_eta"] * losses.detach()).exp()
        self.q.copy_(grown / grown.sum())
        objective = (self.q * losses).sum()
        return objective, {"loss": losses.mean(), "weighted_loss": objective}
