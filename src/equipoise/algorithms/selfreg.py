"""Self-supervised contrastive regularisation (Kim et al. 2021)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report


class SelfReg(Algorithm):
    """ℓ + min(ℓ, 1)·[λ·d(z, z') + (1−λ)·d(z, λ z' + (1−λ) z'')], λ ~ Beta(0.5, 0.5).

    z', z'' are examples of the same label at random and d the mean square of differences of
    logits plus 0.3 times that of features, those of the others through a projection.
    DomainBed's optimiser misses the projection; here it is trained, as in the paper.
    """

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        n = self.n_features
        hidden = n if n == 2048 else 2 * n
        self.projection = nn.Sequential(
            *(nn.Linear(n, hidden), nn.BatchNorm1d(hidden), nn.ReLU()),
            *(nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU()),
            *(nn.Linear(hidden, n), nn.BatchNorm1d(n)),
        )

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        per_environment, labels = self.encode(batches)
        features, y = torch.cat(per_environment), torch.cat(labels)
        logits, projected = self.classifier(features), self.projection(features)
        loss = cross_entropy(logits, y)

        weight = self.draw_beta(0.5)
        other, third = self.draw_same_label(y), self.draw_same_label(y)
        penalty = logits.new_zeros(())
        for scale, own, peers in ((1.0, logits, logits), (0.3, features, projected)):
            mixed = weight * peers[other] + (1 - weight) * peers[third]
            single = weight * mse_loss(own, peers[other])
            penalty = penalty + scale * (single + (1 - weight) * mse_loss(own, mixed))
        scale = min(float(loss.detach()), 1.0)
        return loss + scale * penalty, {"loss": loss, "penalty": penalty}

    def draw_same_label(self, labels: Tensor) -> Tensor:
        """For each example the place of one of its label: a shuffle within each label.  [N]"""
        order = torch.randperm(len(labels), generator=self.generator).to(labels.device)
        partners = torch.empty_like(order)
        by_label = order[labels[order].argsort(stable=True)]
        partners[labels.argsort(stable=True)] = by_label
        return partners
