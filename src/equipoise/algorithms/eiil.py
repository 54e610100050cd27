"""Environment inference for invariant learning, with GroupDRO (Creager et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform
from equipoise.algorithms.risks import scale_slopes


class EIIL(Algorithm):
    """GroupDRO over groups (label, inferred environment); the given environments play no part.

    A reference model learns by ERM for ``eiil_reference_steps`` steps and is then frozen. The
    inferred environments maximise (1/N Σ_i q_i s_i)² + (1/N Σ_i (1 − q_i) s_i)², s_i the slope of
    ℓ_i in a scale of the reference's logits. The sum of both terms' roots is fixed, so the
    maximum is q_i = 1 where s_i > 0, else 0: what the reference is too sure of, and the rest.
    The paper climbs there by gradient steps over the whole training set.
    """

    hyperparameters: ClassVar = {
        "eiil_reference_steps": Hyperparameter(
            200, draw=log_uniform(2, 3, integer=True), integer=True, at_least=0
        ),
        "groupdro_eta": Hyperparameter(1e-2, draw=log_uniform(-3, -1)),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.reference = self.copy_network()
        self.q: Tensor
        self.register_buffer("q", torch.full((2 * self.n_labels,), 1 / (2 * self.n_labels)))

    def build_optimizers(self) -> None:
        self.add_optimizer("main", [*self.featurizer.parameters(), *self.classifier.parameters()])
        self.add_optimizer("reference", self.reference.parameters())

    def _update(self, batches: list[Batch]) -> Report:
        if self.steps < self.settings["eiil_reference_steps"]:
            logits = self.ranks.gather(self.reference(torch.cat([x for x, _ in batches])))
            loss = cross_entropy(logits, self.ranks.gather(torch.cat([y for _, y in batches])))
            self.minimise(loss, "reference")
            return {"loss": loss}
        features, labels = self.encode(batches)
        y = torch.cat(labels)
        losses = cross_entropy(self.classifier(torch.cat(features)), y, reduction="none")
        groups = 2 * y + self.infer_environments(batches, y)
        there, places = torch.unique(groups, return_inverse=True)
        sums = losses.new_zeros(len(there)).index_add(0, places, losses)
        means = sums / places.bincount(minlength=len(there))
        self.q[there] *= (self.settings["groupdro_eta"] * means.detach()).exp()
        self.q /= self.q.sum()
        weights = self.q[there] / self.q[there].sum()
        objective = (weights * means).sum()
        self.minimise(objective)
        return {"loss": losses.mean(), "weighted_loss": objective}

    @torch.no_grad()
    def infer_environments(self, batches: list[Batch], labels: Tensor) -> Tensor:
        """1 for each example that the reference model is too sure of, else 0.  [N]"""
        self.reference.eval()
        logits = torch.cat([self.ranks.gather(self.reference(x)) for x, _ in batches])
        self.reference.train()
        return (scale_slopes(logits, labels) > 0).long()
