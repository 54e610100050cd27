"""Learning from failure (Nam et al. 2020)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, uniform


class LfF(Algorithm):
    """mean W_i ℓ_i, W_i = ℓ_i^B / (ℓ_i^B + ℓ_i): what a biased model B fails on counts.

    B is trained along with the other on the generalised cross-entropy (1 − p_y^q)/q, which
    favours what is easy. Losses in W are divided by the largest of their label. The paper also
    smooths them over epochs for each example; here they are those of the step.
    """

    hyperparameters: ClassVar = {
        "lff_q": Hyperparameter(0.7, draw=uniform(0.3, 0.9), above=0, at_most=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.biased_model = self.copy_network()

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        y = torch.cat(labels)
        losses = cross_entropy(self.classifier(torch.cat(features)), y, reduction="none")
        biased = torch.cat([self.ranks.gather(self.biased_model(x)) for x, _ in batches])
        biased_losses = cross_entropy(biased, y, reduction="none")
        weights = self.weigh(biased_losses.detach(), losses.detach(), y)
        q = self.settings["lff_q"]
        generalised = ((1 - (-q * biased_losses).exp()) / q).mean()  # p_y = exp(−ℓ)
        weighted = (weights * losses).mean()
        report: Report = {"loss": losses.mean(), "biased_loss": biased_losses.mean()}
        return weighted + generalised, report

    def weigh(self, biased: Tensor, own: Tensor, labels: Tensor) -> Tensor:
        """Relative difficulty of each example, both losses divided by their label's largest."""
        scaled = []
        for losses in (biased, own):
            largest = losses.new_zeros(self.n_labels).scatter_reduce(0, labels, losses, "amax")
            scaled.append(losses / largest[labels].clamp_min(1e-12))
        return scaled[0] / (scaled[0] + scaled[1]).clamp_min(1e-12)
