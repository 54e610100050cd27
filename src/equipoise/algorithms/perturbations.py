"""Inputs or features changed at random: Mixup, RSC, SagNet and SelfReg."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.registry import Hyperparameter, log_uniform, uniform

EPSILON = 1e-5


def draw_beta(alpha: float, generator: torch.Generator) -> float:
    """One draw from Beta(alpha, alpha)."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return float(np.random.default_rng(seed).beta(alpha, alpha))


class Mixup(Algorithm):
    """mean over pairs (i, j) of λ·ℓ(x, y_i) + (1−λ)·ℓ(x, y_j), with x = λ x_i + (1−λ) x_j.

    The pairs are neighbours on a random circle of the environments, λ ~ Beta(α, α) for each.
    Of two batches that differ in size, the surplus of the larger one is left out (Yan et al.
    2020; Xu et al. 2020).
    """

    min_environments = 2
    hyperparameters: ClassVar = {
        "mixup_alpha": Hyperparameter(0.2, draw=log_uniform(-1, 1), above=0),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        circle = torch.randperm(len(batches), generator=self.generator).tolist()
        losses = []
        for i, j in zip(circle, circle[1:] + circle[:1], strict=True):
            weight = draw_beta(self.settings["mixup_alpha"], self.generator)
            (x_i, y_i), (x_j, y_j) = batches[i], batches[j]
            n = min(len(y_i), len(y_j))
            logits = self.predict(weight * x_i[:n] + (1 - weight) * x_j[:n])
            logits, y_i, y_j = (self.ranks.gather(t) for t in (logits, y_i[:n], y_j[:n]))
            mixed = weight * self.loss(logits, y_i) + (1 - weight) * self.loss(logits, y_j)
            losses.append(mixed)
        loss = torch.stack(losses).mean()
        return loss, {"loss": loss}


class RSC(Algorithm):
    """ℓ without each example's most telling features (Huang et al. 2020).

    Muted are the third of the features with the largest ∂logit_y/∂f, and only in the third of
    the examples whose confidence in y falls most by it.
    """

    hyperparameters: ClassVar = {
        "rsc_f_drop_factor": Hyperparameter(1 / 3, draw=uniform(0, 0.5), at_least=0, at_most=1),
        "rsc_b_drop_factor": Hyperparameter(1 / 3, draw=uniform(0, 0.5), at_least=0, at_most=1),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, y = self.encode_together(batches)
        kept = self.kept_features(features.detach(), y)
        loss = self.loss(self.classifier(features * kept), y)
        return loss, {"loss": loss}

    def kept_features(self, features: Tensor, labels: Tensor) -> Tensor:
        """1 where a feature stays, 0 where it is muted.  [N, d]"""
        seen = features.clone().requires_grad_()
        logits = self.classifier(seen)
        own = labels.unsqueeze(1)
        (slopes,) = torch.autograd.grad(logits.gather(1, own).sum(), seen)
        with torch.no_grad():
            # Quantiles are known of single and double precision only.
            precision = torch.promote_types(slopes.dtype, torch.float32)
            slopes = slopes.to(precision)
            bound = slopes.quantile(1 - self.settings["rsc_f_drop_factor"], 1, True)
            kept = slopes < bound
            muted_logits = self.classifier(features * kept)
            before, after = (z.softmax(dim=1).gather(1, own) for z in (logits, muted_logits))
            drop = (before - after).to(precision)  # [N, 1]
            spared: Tensor = drop < drop.quantile(1 - self.settings["rsc_b_drop_factor"])
            return (kept | spared).to(features.dtype)


class SagNet(Algorithm):
    """Style is the mean and variance of an example's features, content what remains.

    Three steps: featuriser and classifier minimise ℓ on mixed styles; a style classifier
    minimises ℓ on swapped contents; the featuriser minimises ``sag_w_adv`` times the
    cross-entropy between the style classifier's prediction and the uniform one (Nam et al. 2021).
    """

    hyperparameters: ClassVar = {
        "sag_w_adv": Hyperparameter(0.1, draw=log_uniform(-2, 1)),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.style_classifier = nn.Linear(self.n_features, self.n_labels)

    def build_optimizers(self) -> None:
        self.add_optimizer("featurizer", self.featurizer.parameters())
        self.add_optimizer("content", self.classifier.parameters())
        self.add_optimizer("style", self.style_classifier.parameters())

    def _update(self, batches: list[Batch]) -> Report:
        features, labels = self.encode_together(batches)
        loss = self.loss(self.classifier(self.mix_styles(features)), labels)
        self.minimise(loss, "featurizer", "content")

        with torch.no_grad():
            features, _ = self.encode_together(batches)
        style_loss = self.loss(self.style_classifier(self.swap_contents(features)), labels)
        self.minimise(style_loss, "style")

        features, _ = self.encode_together(batches)
        logits = self.style_classifier(self.swap_contents(features))
        adversary = -logits.log_softmax(dim=1).mean() * self.settings["sag_w_adv"]
        self.minimise(adversary, "featurizer")
        return {"loss": loss, "style_loss": style_loss, "adversarial_loss": adversary}

    def mix_styles(self, features: Tensor) -> Tensor:
        """Each example's content with a random mixture of its own style and another's."""
        content, mean, variance = self._separate(features)
        share = torch.rand(len(features), 1, generator=self.generator).to(features)
        other = self._shuffle(features)
        mean = share * mean + (1 - share) * mean[other]
        variance = share * variance + (1 - share) * variance[other]
        return content * (variance + EPSILON).sqrt() + mean

    def swap_contents(self, features: Tensor) -> Tensor:
        """Each example's style on another's content."""
        content, mean, variance = self._separate(features)
        content = content[self._shuffle(features)].detach()
        return content * (variance + EPSILON).sqrt() + mean

    def _separate(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = features.mean(dim=1, keepdim=True)
        variance = features.var(dim=1, keepdim=True)
        return (features - mean) / (variance + EPSILON).sqrt(), mean, variance

    def _shuffle(self, features: Tensor) -> Tensor:
        return torch.randperm(len(features), generator=self.generator).to(features.device)


class SelfReg(Algorithm):
    """ℓ + min(ℓ, 1)·[λ·d(z, z') + (1−λ)·d(z, λ z' + (1−λ) z'')], λ ~ Beta(0.5, 0.5).

    z', z'' are examples of the same label at random and d the mean square of differences of
    logits plus 0.3 times that of features, those of the others through a projection.
    DomainBed's optimiser misses the projection; here it is trained, as in the paper (Kim
    et al. 2021).
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
        features, y = self.encode_together(batches)
        logits, projected = self.classifier(features), self.projection(features)
        loss = self.loss(logits, y)

        weight = draw_beta(0.5, self.generator)
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
