"""A second model shows what the first should learn from: JTT, LfF, EIIL and PI."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.registry import Hyperparameter, choice, log_uniform, uniform
from equipoise.algorithms.risks import scale_slopes, weigh_worst

FIRST_STEPS = Hyperparameter(200, draw=log_uniform(2, 3, integer=True), integer=True, at_least=0)


class JTT(Algorithm):
    """Σ_i w_i ℓ_i / Σ_i w_i, w_i = ``jtt_upweight`` where a first model is wrong, else 1.

    The first model learns by ERM for ``jtt_identification_steps`` steps and is then frozen; the
    second starts there, from its own initial weights. The paper marks the first model's errors
    once for the whole training set; here it judges each example as the batch shows it (Liu et
    al. 2021).
    """

    hyperparameters: ClassVar = {
        "jtt_identification_steps": FIRST_STEPS,
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
            return _train_alone(self, self.first_model, batches, "first")
        features, y = self.encode_together(batches)
        losses = self.loss(self.classifier(features), y, reduction="none")
        wrong = _predict_alone(self, self.first_model, batches).argmax(dim=1) != y
        weights = wrong * (float(self.settings["jtt_upweight"]) - 1.0) + 1.0
        objective = (weights * losses).sum() / weights.sum()
        self.minimise(objective)
        return {"loss": losses.mean(), "weighted_loss": objective}


class LfF(Algorithm):
    """mean W_i ℓ_i, W_i = ℓ_i^B / (ℓ_i^B + ℓ_i): what a biased model B fails on counts.

    B is trained along with the other on the generalised cross-entropy (1 − p_y^q)/q, which
    favours what is easy. Losses in W are divided by the largest of their label. The paper also
    smooths them over epochs for each example; here they are those of the step (Nam et al. 2020).
    """

    hyperparameters: ClassVar = {
        "lff_q": Hyperparameter(0.7, draw=uniform(0.3, 0.9), above=0, at_most=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.biased_model = self.copy_network()

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, y = self.encode_together(batches)
        logits = self.classifier(features)
        losses = self.loss(logits, y, reduction="none")
        biased = torch.cat([self.ranks.gather(self.biased_model(x)) for x, _ in batches])
        biased_losses = cross_entropy(biased, y, reduction="none")
        own_losses = cross_entropy(logits.detach(), y, reduction="none")
        weights = self.weigh(biased_losses.detach(), own_losses, y)
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


class EIIL(Algorithm):
    """GroupDRO over groups (label, inferred environment); the given environments play no part.

    A reference model learns by ERM for ``eiil_reference_steps`` steps and is then frozen. The
    inferred environments maximise (1/N Σ_i q_i s_i)² + (1/N Σ_i (1 − q_i) s_i)², s_i the slope of
    ℓ_i in a scale of the reference's logits. The sum of both terms' roots is fixed, so the
    maximum is q_i = 1 where s_i > 0, else 0: what the reference is too sure of, and the rest.
    The paper climbs there by gradient steps over the whole training set (Creager et al. 2021).
    """

    hyperparameters: ClassVar = {
        "eiil_reference_steps": FIRST_STEPS,
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
            return _train_alone(self, self.reference, batches, "reference")
        features, y = self.encode_together(batches)
        losses = self.loss(self.classifier(features), y, reduction="none")
        groups = 2 * y + self.infer_environments(batches, y)
        there, places = torch.unique(groups, return_inverse=True)
        sums = losses.new_zeros(len(there)).index_add(0, places, losses)
        means = sums / places.bincount(minlength=len(there))
        objective = weigh_worst(self.q, there, means, eta=self.settings["groupdro_eta"])
        self.minimise(objective)
        return {"loss": losses.mean(), "weighted_loss": objective}

    def infer_environments(self, batches: list[Batch], labels: Tensor) -> Tensor:
        """1 for each example that the reference model is too sure of, else 0.  [N]"""
        logits = _predict_alone(self, self.reference, batches)
        return (scale_slopes(logits, labels) > 0).long()


class PI(Algorithm):
    """max over groups of ℓ_group; the groups are what each environment's classifier gets right
    and wrong in every other environment.

    A classifier that leans on an unstable feature is wrong elsewhere where that feature
    misleads, so the worst group resists it. The paper trains the environments' classifiers
    first; here they learn during the first ``pi_partition_steps`` steps, next to the model, and
    are then frozen. Not part of DomainBed (Bao et al. 2021).
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "pi_partition_steps": FIRST_STEPS,
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
            gather = self.ranks.gather
            networks = [self.environment_networks[e] for e in self.present]
            own = [
                self.loss(gather(network(x)), gather(y))
                for network, (x, y) in zip(networks, batches, strict=True)
            ]
            self.minimise(torch.stack(own).sum(), "environments")
        features, labels = self.encode(batches)
        losses = [
            self.loss(self.classifier(f), y, reduction="none")
            for f, y in zip(features, labels, strict=True)
        ]
        groups = self.partition(batches)
        worst = torch.stack([losses[e][rows].mean() for e, rows in groups]).max()
        self.minimise(worst)
        return {"loss": torch.cat(losses).mean(), "worst_loss": worst}

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


def _train_alone(
    algorithm: Algorithm, model: nn.Module, batches: list[Batch], optimizer: str
) -> Report:
    """One step of ERM that trains the second model only."""
    x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
    loss = algorithm.loss(algorithm.ranks.gather(model(x)), algorithm.ranks.gather(y))
    algorithm.minimise(loss, optimizer)
    return {"loss": loss}


@torch.no_grad()
def _predict_alone(algorithm: Algorithm, model: nn.Module, batches: list[Batch]) -> Tensor:
    """The second model's logits, as in evaluation.  [N, m]"""
    model.eval()
    logits = torch.cat([algorithm.ranks.gather(model(x)) for x, _ in batches])
    model.train()
    return logits
