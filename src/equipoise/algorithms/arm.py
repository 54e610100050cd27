"""Adaptive risk minimisation, contextual meta-learning (Zhang et al. 2021)."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.algorithms.base import Featurizer
from equipoise.algorithms.batches import Batch
from equipoise.algorithms.erm import ERM
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform


class ARM(ERM):
    """ℓ(classifier(featuriser([x, c_e])), y), where c_e = mean of context(x) over the batch.

    The context joins as a further channel (of a vector: as many further entries). The support
    is the environment's batch, in prediction the batch handed in. DomainBed's optimiser misses
    the context network, which so stays at its random start; here it is trained.
    """

    hyperparameters: ClassVar = {
        "batch_size": Hyperparameter(
            64,
            large=8,
            draw=log_uniform(3, 9, base=2, integer=True),
            draw_large=lambda rng: 8,
            integer=True,
            at_least=1,
        ),
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
    if len(input_shape) == 1:
        n = input_shape[0]
        return nn.Sequential(
            *(nn.Linear(n, 64), nn.BatchNorm1d(64), nn.ReLU()),
            *(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()),
            nn.Linear(64, n),
        )
    return nn.Sequential(
        *(nn.Conv2d(input_shape[0], 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU()),
        *(nn.Conv2d(64, 64, 5, padding=2), nn.BatchNorm2d(64), nn.ReLU()),
        nn.Conv2d(64, 1, 5, padding=2),
    )
