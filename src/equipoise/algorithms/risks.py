"""Functions of the environments' losses: ERM, GroupDRO, VREx and IRM."""

from typing import ClassVar

import torch
from torch import Tensor

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.registry import Hyperparameter, log_uniform


class ERM(Algorithm):
    """The mean loss over all examples of all environments: ℓ(∪_e batch_e)."""

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode_together(batches)
        loss = self.loss(self.classifier(features), labels)
        return loss, {"loss": loss}


class GroupDRO(Algorithm):
    """Σ_e q_e ℓ_e, where first q_e ← q_e·exp(η ℓ_e), normalised: the worst environments count.

    An absent environment keeps its q_e; the others share the weight of the step (Sagawa et al.
    2020).
    """

    encodes_apart = True
    hyperparameters: ClassVar = {
        "groupdro_eta": Hyperparameter(1e-2, draw=log_uniform(-3, -1)),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.q: Tensor
        self.register_buffer("q", torch.full((self.n_environments,), 1 / self.n_environments))

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        losses = self.losses(*self.encode(batches))
        present = torch.tensor(self.present, device=losses.device)
        objective = weigh_worst(self.q, present, losses, eta=self.settings["groupdro_eta"])
        return objective, {"loss": losses.mean(), "weighted_loss": objective}


PENALTY_STARTS = Hyperparameter(500, draw=log_uniform(0, 4, integer=True), integer=True, at_least=0)


class VREx(Algorithm):
    """mean_e ℓ_e + λ·Var_e ℓ_e (Krueger et al. 2021).

    λ = 1 for the first steps, then ``vrex_lambda``; Adam restarts there.
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "vrex_lambda": Hyperparameter(1e1, draw=log_uniform(-1, 5)),
        "vrex_penalty_anneal_iters": PENALTY_STARTS,
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        losses = self.losses(*self.encode(batches))
        loss, penalty = losses.mean(), losses.var(unbiased=False)
        weight = self.anneal("vrex_lambda", "vrex_penalty_anneal_iters", before=1.0)
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}


class IRM(Algorithm):
    """mean_e ℓ_e + λ·mean_e(∂ℓ_e'/∂w · ∂ℓ_e''/∂w), where w = 1 scales the logits.

    ' and '' are two halves of the environment's batch, so the product is an unbiased estimate
    of the squared gradient. λ = 1 for the first steps, then ``irm_lambda``; Adam restarts there.
    DomainBed takes the even and the odd places; here the halves are random, so that the order
    of a batch (an anchor, its match, …) plays no part (Arjovsky et al. 2019).
    """

    hyperparameters: ClassVar = {
        "irm_lambda": Hyperparameter(1e2, draw=log_uniform(-1, 5)),
        "irm_penalty_anneal_iters": PENALTY_STARTS,
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        pairs = [(self.classifier(f), y) for f, y in zip(features, labels, strict=True)]
        loss = torch.stack([self.loss(z, y) for z, y in pairs]).mean()
        penalty = torch.stack([self._penalty(z, y) for z, y in pairs]).mean()
        weight = self.anneal("irm_lambda", "irm_penalty_anneal_iters", before=1.0)
        return loss + weight * penalty, {"loss": loss, "penalty": penalty}

    def _penalty(self, logits: Tensor, labels: Tensor) -> Tensor:
        if len(labels) < 2:
            return logits.new_zeros(())
        order = torch.randperm(len(labels), generator=self.generator).to(labels.device)
        slopes = scale_slopes(logits, labels, q=self.find_q())[order]
        return slopes[::2].mean() * slopes[1::2].mean()


def weigh_worst(q: Tensor, groups: Tensor, losses: Tensor, *, eta: float) -> Tensor:
    """Σ_g q_g ℓ_g over the groups that are there, where first q_g ← q_g·exp(η ℓ_g), in place."""
    q[groups] *= (eta * losses.detach()).exp()
    q /= q.sum()
    weights = q[groups] / q[groups].sum()
    return (weights * losses).sum()


def scale_slopes(logits: Tensor, labels: Tensor, *, q: float = 0.0) -> Tensor:
    """∂ℓ(w·logits, label)/∂w at w = 1 for each example: p_label^q·(Σ_k p_k z_k − z_label).  [N]"""
    p, own = logits.softmax(dim=1), labels.unsqueeze(1)
    slopes = (p * logits).sum(dim=1) - logits.gather(1, own).squeeze(1)
    return slopes * (q * logits.log_softmax(dim=1).gather(1, own).squeeze(1)).exp() if q else slopes
