"""Empirical risk minimisation (Vapnik 1998)."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch


class ERM(Algorithm):
    """The mean cross-entropy over all examples of all environments: ℓ(∪_e batch_e)."""

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        loss = cross_entropy(self.classifier(torch.cat(features)), torch.cat(labels))
        return loss, {"loss": loss}
