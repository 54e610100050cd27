"""Gradient matching by Reptile-like steps (Shi et al. 2022)."""

from typing import ClassVar

import torch
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.hyperparameters import Hyperparameter, choice


class Fish(Algorithm):
    """From θ one Adam step on each environment in turn to θ', then θ ← θ + meta_lr·(θ' − θ).

    To first order this raises the inner products of the environments' gradients. Adam's moments
    live on from one update to the next.
    """

    hyperparameters: ClassVar = {
        "meta_lr": Hyperparameter(0.5, draw=choice(0.05, 0.1, 0.5)),
    }

    def _update(self, batches: list[Batch]) -> Report:
        start = [p.detach().clone() for p in self.parameters()]
        losses = []
        for batch in batches:
            (features,), (labels,) = self.encode([batch])
            loss = cross_entropy(self.classifier(features), labels)
            self.minimise(loss)
            losses.append(loss.detach())
        with torch.no_grad():
            for parameter, origin in zip(self.parameters(), start, strict=True):
                parameter.copy_(origin.lerp(parameter, self.settings["meta_lr"]))
        return {"loss": torch.stack(losses).mean()}
