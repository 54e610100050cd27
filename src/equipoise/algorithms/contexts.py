"""Classifiers that see what their environment is like: MTL and ARM."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.algorithms.base import Algorithm, Batch, Featurizer, Report
from equipoise.algorithms.registry import Hyperparameter, choice
from equipoise.algorithms.risks import ERM


class MTL(Algorithm):
    """Σ_e ℓ(classifier([f, v_e]), y): the classifier also sees what its environment is like.

    v_e ← a·mean(f_e) + (1 − a)·v_e with a = ``mtl_ema``, the weight of the new batch as in
    DomainBed, whose code then overwrites v_e with noise; here it is used. For prediction v is
    the mean of the batch, so hand over batches of one environment (Blanchard et al. 2021).
    """

    encodes_apart = True
    hyperparameters: ClassVar = {
        "mtl_ema": Hyperparameter(0.99, draw=choice(0.5, 0.9, 0.99, 1.0), at_least=0, at_most=1),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.classifier = nn.Linear(2 * self.n_features, self.n_labels)
        self.embeddings: Tensor
        self.register_buffer("embeddings", torch.zeros(self.n_environments, self.n_features))

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        ema = self.settings["mtl_ema"]
        losses = []
        for environment, f, y in zip(self.present, features, labels, strict=True):
            embedding = ema * f.mean(dim=0) + (1 - ema) * self.embeddings[environment]
            self.embeddings[environment] = embedding.detach()
            losses.append(self.loss(self._classify(f, embedding), y))
        total = torch.stack(losses).sum()
        return total, {"loss": total / len(losses)}

    def predict(self, x: Tensor) -> Tensor:
        features = self.featurizer(x)
        return self._classify(features, features.mean(dim=0))

    def _classify(self, features: Tensor, embedding: Tensor) -> Tensor:
        logits: Tensor = self.classifier(torch.cat([features, embedding.expand_as(features)], 1))
        return logits


class ARM(ERM):
    """ℓ(classifier(featuriser([x, c_e])), y), where c_e = mean of context(x) over the batch.

    The context joins as a further channel (of a vector: as many further entries). The support
    is the environment's batch, in prediction the batch handed in. DomainBed's optimiser misses
    the context network, which so stays at its random start; here it is trained. Adaptive risk
    minimisation, contextual meta-learning (Zhang et al. 2021).
    """

    hyperparameters: ClassVar = {
        "batch_size": replace(ERM.hyperparameters["batch_size"], large=8, draw_large=lambda rng: 8),
    }

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        if isinstance(featurizer, nn.Module):
            raise ValueError(
                "ARM adds a channel to the input, so it must make the featurizer itself: hand "
                "in a name or a function input_shape -> module, not a module"
            )
        first, *rest = self.input_shape
        wider = (first + 1, *rest) if rest else (2 * first,)
        self.featurizer, self.n_features = self._make_featurizer(featurizer, n_features, wider)
        self.classifier = nn.Linear(self.n_features, self.n_labels)
        self.context = make_context_network(self.input_shape)

    def encode(self, batches: list[Batch]) -> tuple[list[Tensor], list[Tensor]]:
        sizes = [len(y) for _, y in batches]
        contexts = self.context(torch.cat([x for x, _ in batches])).split(sizes)
        return super().encode(
            [(self._join(x, c), y) for (x, y), c in zip(batches, contexts, strict=True)]
        )

    def predict(self, x: Tensor) -> Tensor:
        return super().predict(self._join(x, self.context(x)))

    def _join(self, x: Tensor, contexts: Tensor) -> Tensor:
        context = contexts.mean(dim=0, keepdim=True).expand(len(x), *contexts.shape[1:])
        return torch.cat([x, context], dim=1)


def make_context_network(input_shape: Sequence[int]) -> nn.Module:
    """Three layers, 64-64-1 channels of 5×5 convolutions; linear layers for a vector."""
    n = input_shape[0]
    if len(input_shape) == 1:
        return nn.Sequential(
            *(nn.Linear(n, 64), nn.BatchNorm1d(64), nn.ReLU()),
            *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
            nn.Linear(64, n),
        )
    return nn.Sequential(
        *(nn.Conv2d(n, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU()),
        nn.Conv2d(64, 1, 5, padding=2),
    )
