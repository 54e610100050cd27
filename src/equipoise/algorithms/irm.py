"""Invariant risk minimisation (Arjovsky et al. 2019)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class IRM(Algorithm):
    """mean_e ℓ_e + λ·mean_e(∂ℓ_e'/∂w · ∂ℓ_e''/∂w), where w = 1 scales the logits.

    ' and '' are two halves of the environment's batch, so the product is an unbiased estimate
    of the squared gradient. λ = 1 for the first steps, then ``irm_lambda``; Adam restarts there.
    DomainBed takes the even and the odd places; here the halves are random, so that the order
    of a batch (an anchor, its match, …) plays no part.
    """

    hyperparameters: ClassVar = {
        "irm_lambda": Hyperparameter(1e2, draw=log_uniform(-1, 5)),
        "irm_penalty_anneal_iters": Hyperparameter(
            500, draw=log_uniform(0, 4, integer=True), integer=True, at_least=0
        ),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        logits = [self.classifier(f) for f in features]
        pairs = list(zip(logits, labels, strict=True))
        loss = torch.stack([cross_entropy(z, y) for z, y in pairs]).mean()
        penalty = torch.stack([self._penalty(z, y) for z, y in pairs]).mean()

        anneal = self.settings["irm_penalty_anneal_iters"]
        weight = self.settings["irm_lambda"] if self.steps >= anneal else 1.0
        if self.steps == anneal:
            self.restart_optimizer()
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}

    def _penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        if len(labels) < 2:
            return logits.new_zeros(())
        order = torch.randperm(len(labels), generator=self.generator).to(labels.device)
        slopes = scale_slopes(logits, labels)[order]
        return slopes[::2].mean() * slopes[1::2].mean()


def scale_slopes(logits: Tensor, labels: Tensor) -> Tensor:
    """∂ℓ(w·logits, label)/∂w at w = 1 for each example: Σ_k p_k z_k − z_label.  [N]"""
    expected = (logits.softmax(dim=1) * logits).sum(dim=1)
    return expected - logits.gather(1, labels.unsqueeze(1)).squeeze(1)
