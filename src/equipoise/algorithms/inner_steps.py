"""Steps on one environment inside a step on all: Fish and MLDG."""

from collections.abc import Mapping
from itertools import cycle
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform


class Fish(Algorithm):
    """From θ one Adam step on each environment in turn to θ', then θ ← θ + meta_lr·(θ' − θ).

    To first order this raises the inner products of the environments' gradients. Adam's moments
    live on from one update to the next (Shi et al. 2022).
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


class MLDG(Algorithm):
    """Descend along Σ_(i,j) (∇ℓ_i(θ) + β ∇ℓ_j(θ'))/E, where θ' is one Adam step from θ on ℓ_i.

    Each training environment i of a random split meets one of the ``n_meta_test`` others, j, and
    both batches are cut to the smaller one. DomainBed's default of 2 leaves none to train on
    where there are two environments, so that it learns nothing; here the number is at most
    E − 1. A step with a single environment descends along ∇ℓ_i (Li et al. 2018, first order).
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "mldg_beta": Hyperparameter(1.0, draw=log_uniform(-1, 1)),
        "n_meta_test": Hyperparameter(2, draw=choice(1, 2), integer=True, at_least=1),
    }

    def _update(self, batches: list[Batch]) -> Report:
        beta = self.settings["mldg_beta"]
        weights = {name: p for name, p in self.named_parameters() if p.requires_grad}
        if len(batches) == 1:
            loss = self._loss(weights, *batches[0])
            self.minimise(loss)
            return {"loss": loss}
        total = [torch.zeros_like(p) for p in weights.values()]
        losses = []
        for i, j in self._split(len(batches)):
            n = min(len(batches[i][1]), len(batches[j][1]))
            (x_i, y_i), (x_j, y_j) = ((x[:n], y[:n]) for x, y in (batches[i], batches[j]))
            loss_i = self._loss(weights, x_i, y_i)
            g_i = self.gradients(loss_i)
            stepped = {
                name: self._first_adam_step(p, g).requires_grad_()
                for (name, p), g in zip(weights.items(), g_i, strict=True)
            }
            loss_j = self._loss(stepped, x_j, y_j)
            g_j = torch.autograd.grad(loss_j, list(stepped.values()), materialize_grads=True)
            self.ranks.average(g_j)
            for sum_, a, b in zip(total, g_i, g_j, strict=True):
                sum_ += (a + beta * b) / len(batches)
            losses.append((loss_i, loss_j))
        self.descend(total)
        train, test = (torch.stack(part).mean() for part in zip(*losses, strict=True))
        return {"loss": train, "meta_test_loss": test}

    def _split(self, n_environments: int) -> list[tuple[int, int]]:
        order = torch.randperm(n_environments, generator=self.generator).tolist()
        n_test = min(self.settings["n_meta_test"], n_environments - 1)
        return list(zip(order[:-n_test], cycle(order[-n_test:]), strict=False))

    def _loss(self, weights: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        logits = functional_call(self, dict(weights), (x,))
        return cross_entropy(self.ranks.gather(logits), self.ranks.gather(y))

    def _first_adam_step(self, weight: Tensor, gradient: Tensor) -> Tensor:
        """Adam's first step has m̂ = g and v̂ = g²: it moves by lr·g/(|g| + ε)."""
        lr: float = self.optimizers["main"].param_groups[0]["lr"]
        weight = weight.detach()
        if self.settings["optimizer"] == "adamw":
            weight = weight * (1 - lr * self.settings["weight_decay"])
        else:
            gradient = gradient + self.settings["weight_decay"] * weight
        return weight - lr * gradient / (gradient.abs() + 1e-8)
