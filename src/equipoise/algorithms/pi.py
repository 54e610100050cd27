"""Predict then interpolate (Bao et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class PI(Algorithm):
    """max over groups of ℓ_group; the groups are what each environment's classifier gets right
    and wrong in every other environment.

    A classifier that leans on an unstable feature is wrong elsewhere where that feature
    misleads, so the worst group resists it. The paper trains the environments' classifiers
    first; here they learn during the first ``pi_partition_steps`` steps, next to the model, and
    are then frozen. Not part of DomainBed.
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "pi_partition_steps": Hyperparameter(
            200, draw=log_uniform(2, 3, integer=True), integer=True, at_least=0
        ),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.environment_networks = nn.ModuleList(
            self.copy_network() for _ in range(self.n_environments)
        )

    def build_optimizers(self) -> None:
        self.add_optimizer("main", [*self.featurizer.parameters(), *self.classifier.parameters()])
        self.add_optimizer("environments", self.environment_networks.parameters())

    def _update(self, batches: list[Batch]) -> Report:
        if self.steps < self.settings["pi_partition_steps"]:
            self._fit_environment_networks(batches)
        features, labels = self.encode(batches)
        losses = [
            cross_entropy(self.classifier(f), y, reduction="none")
            for f, y in zip(features, labels, strict=True)
        ]
        groups = self.partition(batches)
        worst = torch.stack([losses[e][rows].mean() for e, rows in groups]).max()
        self.minimise(worst)
        return {"loss": torch.cat(losses).mean(), "worst_loss": worst}

    def _fit_environment_networks(self, batches: list[Batch]) -> None:
        gather = self.ranks.gather
        losses = [
            cross_entropy(gather(network(x)), gather(y))
            for network, (x, y) in zip(self._own_networks(), batches, strict=True)
        ]
        self.minimise(torch.stack(losses).sum(), "environments")

    def _own_networks(self) -> list[nn.Module]:
        return [self.environment_networks[e] for e in self.present]

    @torch.no_grad()
    def partition(self, batches: list[Batch]) -> list[tuple[int, Tensor]]:
        """The groups that are not empty: the place of a batch and a mask of its examples."""
        groups = []
        self.environment_networks.eval()
        for place, (x, y) in enumerate(batches):
            for other, network in enumerate(self.environment_networks):
                if other == self.present[place]:
                    continue
                right = self.ranks.gather(network(x).argmax(dim=1) == y)
                groups += [(place, rows) for rows in (right, ~right) if rows.any()]
        self.environment_networks.train()
        return groups
