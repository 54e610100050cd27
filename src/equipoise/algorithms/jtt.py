"""Just train twice (Liu et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, log_uniform


class JTT(Algorithm):
    """Σ_i w_i ℓ_i / Σ_i w_i, w_i = ``jtt_upweight`` where a first model is wrong, else 1.

    The first model learns by ERM for ``jtt_identification_steps`` steps and is then frozen; the
    second starts there, from its own initial weights. The paper marks the first model's errors
    once for the whole training set; here it judges each example as the batch shows it.
    """

    hyperparameters: ClassVar = {
        "jtt_identification_steps": Hyperparameter(
            200, draw=log_uniform(2, 3, integer=True), integer=True, at_least=0
        ),
        "jtt_upweight": Hyperparameter(20.0, draw=choice(5.0, 20.0, 50.0, 100.0), at_least=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.first_model = self.copy_network()

    def build_optimizers(self) -> None:
        self.add_optimizer("main", [*self.featurizer.parameters(), *self.classifier.parameters()])
        self.add_optimizer("first", self.first_model.parameters())

    def _update(self, batches: list[Batch]) -> Report:
        if self.steps < self.settings["jtt_identification_steps"]:
            gather = self.ranks.gather
            x, y = torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])
            loss = cross_entropy(gather(self.first_model(x)), gather(y))
            self.minimise(loss, "first")
            return {"loss": loss}
        features, labels = self.encode(batches)
        losses = cross_entropy(
            self.classifier(torch.cat(features)), torch.cat(labels), reduction="none"
        )
        weights = self.weigh(batches)
        objective = (weights * losses).sum() / weights.sum()
        self.minimise(objective)
        return {"loss": losses.mean(), "weighted_loss": objective}

    @torch.no_grad()
    def weigh(self, batches: list[Batch]) -> Tensor:
        """``jtt_upweight`` for each example that the first model gets wrong, else 1.  [N]"""
        self.first_model.eval()
        wrong = [self.ranks.gather(self.first_model(x).argmax(dim=1) != y) for x, y in batches]
        self.first_model.train()
        upweight = float(self.settings["jtt_upweight"])
        return torch.cat(wrong) * (upweight - 1.0) + 1.0
