"""Rules on the environments' gradients: ANDMask, SANDMask, Fishr, Fish and MLDG."""

from collections.abc import Mapping
from itertools import cycle
from typing import ClassVar

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import one_hot

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.devices import in_full_precision
from equipoise.algorithms.registry import Hyperparameter, choice, log_uniform, uniform


class GradientMasking(Algorithm, abstract=True):
    """Descend along mask·mean_e g_e / mean(mask), tensor by tensor, g_e = ∇ℓ_e."""

    min_environments = 2
    encodes_apart = True

    def mask(self, gradients: Tensor) -> Tensor:
        """How far each entry counts, 0 to 1, given the environments' gradients [E, …]."""
        raise NotImplementedError

    def _update(self, batches: list[Batch]) -> Report:
        losses = self.losses(*self.encode(batches))
        per_environment = [self.gradients(loss, retain_graph=True) for loss in losses]
        masked = []
        for gradients in zip(*per_environment, strict=True):
            stacked = torch.stack(gradients)  # [E, …]
            mask = self.mask(stacked)
            masked.append(mask * stacked.mean(dim=0) / (1e-10 + mask.mean()))
        self.descend(masked)
        return {"loss": losses.mean()}


class ANDMask(GradientMasking):
    """mask = 1 where |mean_e sign g_e| ≥ τ: only entries whose sign the environments share.

    Parascandolo et al. 2021.
    """

    hyperparameters: ClassVar = {
        "tau": Hyperparameter(1.0, draw=uniform(0.5, 1.0), at_least=0, at_most=1),
    }

    def mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(dim=0).abs()
        return agreement.ge(self.settings["tau"]).to(gradients.dtype)


class SANDMask(GradientMasking):
    """mask = relu(tanh((k / Var_e g_e)·(|mean_e sign g_e| − τ))) (Shahtalebi et al. 2021).

    DomainBed's default τ = 1 makes every mask zero, since no agreement exceeds 1: nothing is
    ever learned. The default here is the middle of its search range, 0.5.
    """

    hyperparameters: ClassVar = {
        "tau": Hyperparameter(0.5, draw=uniform(0.0, 1.0), at_least=0, at_most=1),
        "k": Hyperparameter(1e1, draw=log_uniform(-3, 5)),
    }

    def mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(dim=0).abs()
        k, tau = float(self.settings["k"]), float(self.settings["tau"])
        spread = gradients - gradients.mean(dim=0)  # several times faster than .var(dim=0)
        variance = spread.square().sum(dim=0) / max(len(gradients) - 1, 1)
        sharpness = k / variance.clamp_min(1e-17)
        return (sharpness * (agreement - tau)).tanh().relu()


class Fishr(Algorithm):
    """ℓ + λ·mean_e mean (v_e − v̄)², v_e the variance of the classifier's per-example gradients.

    v_e is smoothed over the steps (``ema``) and divided by 1 − ema, as DomainBed does, so that
    the size of its gradient does not depend on ema. λ = 0 for the first steps, then
    ``fishr_lambda``; Adam restarts there (Ramé et al. 2022).
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "fishr_lambda": Hyperparameter(1000.0, draw=log_uniform(1, 4)),
        "penalty_anneal_iters": Hyperparameter(
            1500, draw=uniform(0, 5000, integer=True), integer=True, at_least=0
        ),
        "ema": Hyperparameter(0.95, draw=uniform(0.90, 0.99), at_least=0, below=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        n_gradients = (self.n_features + 1) * self.n_labels
        self.variances: Tensor
        self.register_buffer("variances", torch.zeros(self.n_environments, n_gradients))

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        logits = [self.classifier(f) for f in features]
        loss = self.loss(torch.cat(logits), torch.cat(labels))

        ema = self.settings["ema"]
        triples, q = zip(features, logits, labels, strict=True), self.find_q()
        new = torch.stack([gradient_variances(*triple, q=q) for triple in triples])
        smooth = ema * self.variances[self.present] + (1 - ema) * new
        self.variances[self.present] = smooth.detach()
        smooth = smooth / (1 - ema)
        penalty = (smooth - smooth.mean(dim=0)).square().mean()

        weight = self.anneal("fishr_lambda", "penalty_anneal_iters", before=0.0)
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}


def gradient_variances(
    features: Tensor, logits: Tensor, labels: Tensor, *, q: float = 0.0
) -> Tensor:
    """Variance over the examples of ∂ℓ_n/∂(W, b) of a linear classifier.  [(d + 1)·m]

    ∂ℓ_n/∂W = δ_n f_nᵀ and ∂ℓ_n/∂b = δ_n with δ_n = p_y^q·(softmax(logits_n) − onehot(y_n)), so
    with a feature 1 added all moments are two matrix products and no gradient is ever stored.
    """
    with in_full_precision(features, logits) as (features, logits):
        p = logits.softmax(dim=1)
        residuals = p - one_hot(labels, logits.shape[1])
        if q:
            own = logits.log_softmax(dim=1).gather(1, labels.unsqueeze(1))
            residuals = residuals * (q * own).exp()
        inputs = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
        mean = residuals.T @ inputs / len(labels)
        mean_square = residuals.square().T @ inputs.square() / len(labels)
        return (mean_square - mean.square()).flatten()


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
            loss = self.loss(self.classifier(features), labels)
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
        return self.loss(self.ranks.gather(logits), self.ranks.gather(y))

    def _first_adam_step(self, weight: Tensor, gradient: Tensor) -> Tensor:
        """Adam's first step has m̂ = g and v̂ = g²: it moves by lr·g/(|g| + ε)."""
        lr: float = self.optimizers["main"].param_groups[0]["lr"]
        weight = weight.detach()
        if self.settings["optimizer"] == "adamw":
            weight = weight * (1 - lr * self.settings["weight_decay"])
        else:
            gradient = gradient + self.settings["weight_decay"] * weight
        return weight - lr * gradient / (gradient.abs() + 1e-8)
