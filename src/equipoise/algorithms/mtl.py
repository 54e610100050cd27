"""Marginal transfer learning (Blanchard et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Featurizer, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, choice


class MTL(Algorithm):
    """Σ_e ℓ(classifier([f, v_e]), y): the classifier also sees what its environment is like.

    v_e ← a·mean(f_e) + (1 − a)·v_e with a = ``mtl_ema``, the weight of the new batch as in
    DomainBed, whose code then overwrites v_e with noise; here it is used. For prediction v is
    the mean of the batch, so hand over batches of one environment.
    """

    hyperparameters: ClassVar = {
        "mtl_ema": Hyperparameter(0.99, draw=choice(0.5, 0.9, 0.99, 1.0), at_least=0, at_most=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.classifier = nn.Linear(2 * self.n_features, self.n_labels)
        self.embeddings: Tensor
        self.register_buffer("embeddings", torch.zeros(self.n_environments, self.n_features))

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        ema = self.settings["mtl_ema"]
        losses = []
        for environment, (f, y) in enumerate(zip(features, labels, strict=True)):
            embedding = ema * f.mean(dim=0) + (1 - ema) * self.embeddings[environment]
            self.embeddings[environment] = embedding.detach()
            losses.append(cross_entropy(self._classify(f, embedding), y))
        total = torch.stack(losses).sum()
        return total, {"loss": total / len(losses)}

    def predict(self, x: Tensor) -> Tensor:
        features = self.featurizer(x)
        return self._classify(features, features.mean(dim=0))

    def _classify(self, features: Tensor, embedding: Tensor) -> Tensor:
        logits: Tensor = self.classifier(torch.cat([features, embedding.expand_as(features)], 1))
        return logits
