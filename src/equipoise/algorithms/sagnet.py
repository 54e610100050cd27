"""Style-agnostic networks (Nam et al. 2021)."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform

EPSILON = 1e-5


class SagNet(Algorithm):
    """Style is the mean and variance of an example's features, content what remains.

    Three steps: featuriser and classifier minimise ℓ on mixed styles; a style classifier
    minimises ℓ on swapped contents; the featuriser minimises ``sag_w_adv`` times the
    cross-entropy between the style classifier's prediction and the uniform one.
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
        features, labels = self._encode_all(batches)
        loss = cross_entropy(self.classifier(self.mix_styles(features)), labels)
        self.minimise(loss, "featurizer", "content")

        with torch.no_grad():
            features, _ = self._encode_all(batches)
        style_loss = cross_entropy(self.style_classifier(self.swap_contents(features)), labels)
        self.minimise(style_loss, "style")

        features, _ = self._encode_all(batches)
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

    def _encode_all(self, batches: list[Batch]) -> tuple[Tensor, Tensor]:
        features, labels = self.encode(batches)
        return torch.cat(features), torch.cat(labels)

    def _separate(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = features.mean(dim=1, keepdim=True)
        variance = features.var(dim=1, keepdim=True)
        return (features - mean) / (variance + EPSILON).sqrt(), mean, variance

    def _shuffle(self, features: Tensor) -> Tensor:
        return torch.randperm(len(features), generator=self.generator).to(features.device)
