"""Invariant gradient variances (Ramé et al. 2022)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform, uniform


class Fishr(Algorithm):
    """ℓ + λ·mean_e mean (v_e − v̄)², v_e the variance of the classifier's per-example gradients.

    v_e is smoothed over the steps (``ema``) and divided by 1 − ema, as DomainBed does, so that
    the size of its gradient does not depend on ema. λ = 0 for the first steps, then
    ``fishr_lambda``; Adam restarts there.
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
        loss = cross_entropy(torch.cat(logits), torch.cat(labels))

        ema = self.settings["ema"]
        triples = zip(features, logits, labels, strict=True)
        new = torch.stack([gradient_variances(*triple) for triple in triples])
        smooth = ema * self.variances[self.present] + (1 - ema) * new
        self.variances[self.present] = smooth.detach()
        smooth = smooth / (1 - ema)
        penalty = (smooth - smooth.mean(dim=0)).square().mean()

        anneal = self.settings["penalty_anneal_iters"]
        weight = self.settings["fishr_lambda"] if self.steps >= anneal else 0.0
        if self.steps == anneal:
            self.restart_optimizer()
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}


def gradient_variances(features: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """Variance over the examples of ∂ℓ_n/∂(W, b) of a linear classifier.  [(d + 1)·m]

    ∂ℓ_n/∂W = δ_n f_nᵀ and ∂ℓ_n/∂b = δ_n with δ_n = softmax(logits_n) − onehot(y_n), so with a
    feature 1 added all moments are two matrix products and no gradient is ever stored.
    """
    with torch.autocast(features.device.type, enabled=False):
        dtype = torch.promote_types(features.dtype, torch.float32)
        features, logits = features.to(dtype), logits.to(dtype)
        residuals = logits.softmax(dim=1) - one_hot(labels, logits.shape[1])
        inputs = torch.cat([features, features.new_ones(len(features), 1)], dim=1)
        mean = residuals.T @ inputs / len(labels)
        mean_square = residuals.square().T @ inputs.square() / len(labels)
        return (mean_square - mean.square()).flatten()
