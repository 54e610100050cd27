"""Risk extrapolation by the variance of the risks (Krueger et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class VREx(Algorithm):
    """mean_e ℓ_e + λ·Var_e ℓ_e.

    λ = 1 for the first steps, then ``vrex_lambda``; Adam restarts there.
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "vrex_lambda": Hyperparameter(1e1, draw=log_uniform(-1, 5)),
        "vrex_penalty_anneal_iters": Hyperparameter(
            500, draw=log_uniform(0, 4, integer=True), integer=True, at_least=0
        ),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        losses = torch.stack(
            [cross_entropy(self.classifier(f), y) for f, y in zip(features, labels, strict=True)]
        )
        loss, penalty = losses.mean(), losses.var(unbiased=False)

        anneal = self.settings["vrex_penalty_anneal_iters"]
        weight = self.settings["vrex_lambda"] if self.steps >= anneal else 1.0
        if self.steps == anneal:
            self.restart_optimizer()
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}
