"""Inter-domain mixup (Yan et al. 2020; Xu et al. 2020)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class Mixup(Algorithm):
    """mean over pairs (i, j) of λ·ℓ(x, y_i) + (1−λ)·ℓ(x, y_j), with x = λ x_i + (1−λ) x_j.

    The pairs are neighbours on a random circle of the environments, λ ~ Beta(α, α) for each.
    Of two batches that differ in size, the surplus of the larger one is left out.
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "mixup_alpha": Hyperparameter(0.2, draw=log_uniform(-1, 1), above=0),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        circle = torch.randperm(len(batches), generator=self.generator).tolist()
        losses = []
        for i, j in zip(circle, circle[1:] + circle[:1], strict=True):
            weight = self.draw_beta(self.settings["mixup_alpha"])
            (x_i, y_i), (x_j, y_j) = batches[i], batches[j]
            n = min(len(y_i), len(y_j))
            logits = self.predict(weight * x_i[:n] + (1 - weight) * x_j[:n])
            logits, y_i, y_j = (self.ranks.gather(t) for t in (logits, y_i[:n], y_j[:n]))
            mixed = weight * cross_entropy(logits, y_i) + (1 - weight) * cross_entropy(logits, y_j)
            losses.append(mixed)
        loss = torch.stack(losses).mean()
        return loss, {"loss": loss}
