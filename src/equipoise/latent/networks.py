"""The paper's perceptrons for q(z | x, y, e) and p(x | z, y)."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor, nn


class Encoder(Protocol):
    """What an own encoder must answer: (x, y, e) -> mean and log-variance of z, each [B, n].

    A third tensor [B, n(n−1)/2] makes q(z|x,y,e) a Gaussian with full covariance CCᵀ: its
    entries stand below the diagonal of C, row by row, whose diagonal is exp(log-variance / 2).
    """

    def __call__(self, x: Tensor, y: Tensor, e: Tensor) -> tuple[Tensor, ...]: ...


class Decoder(Protocol):
    """What an own decoder must answer: (z, y) -> the mean of x [B, *input_shape]."""

    def __call__(self, z: Tensor, y: Tensor) -> Tensor: ...


def is_small(input_shape: tuple[int, ...]) -> bool:
    """Whether the paper's sizes for 28×28 images apply; to feature vectors they do as well."""
    return len(input_shape) == 1 or math.prod(input_shape[-2:]) <= 28 * 28


def default_hidden(input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The paper's sizes: two layers of 512 up to 28×28 images, three of 1,024 above.

    Feature vectors get two layers of 512 as well.
    """
    return (512, 512) if is_small(input_shape) else (1024, 1024, 1024)


class MLPEncoder(nn.Module):
    """q(z | x, y, e) as a perceptron on x with label and environment one-hot beside it.

    The first layer is kept in three parts, so that re-encoding x under every label costs one
    pass over the pixels instead of m.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_labels: int,
        n_environments: int,
        latent_dim: int,
        hidden: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.n_labels = n_labels
        self.from_x = nn.Linear(math.prod(input_shape), hidden[0])
        self.from_label = nn.Embedding(n_labels, hidden[0])
        self.from_environment = nn.Embedding(n_environments, hidden[0])
        # The three parts start as one linear layer would: x speaks louder than the label.
        bound = 1.0 / math.sqrt(math.prod(input_shape) + n_labels + n_environments)
        for part in (self.from_x, self.from_label, self.from_environment):
            nn.init.uniform_(part.weight, -bound, bound)
        layers: list[nn.Module] = [nn.ReLU()]
        for width_in, width_out in pairwise(hidden):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        self.rest = nn.Sequential(*layers, nn.Linear(hidden[-1], 2 * latent_dim))

    def forward(self, x: Tensor, y: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        first = self.from_x(x.flatten(1)) + self.from_label(y) + self.from_environment(e)
        mean, log_variance = self.rest(first).chunk(2, dim=-1)
        return mean, log_variance

    def encode_hypotheses(self, x: Tensor, e: Tensor) -> Tensor:
        """Means of z under every label y' [B, m, n]."""
        first = self.from_x(x.flatten(1)) + self.from_environment(e)
        rows = [self.rest(first + label).chunk(2, dim=-1)[0] for label in self.from_label.weight]
        return torch.stack(rows, dim=1)


class MLPDecoder(nn.Module):
    """p(x | z, y) as a perceptron on z with the label one-hot beside it; no environment."""

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_labels: int,
        latent_dim: int,
        hidden: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.input_shape = input_shape
        self.from_z = nn.Linear(latent_dim, hidden[-1])
        self.from_label = nn.Embedding(n_labels, hidden[-1])
        bound = 1.0 / math.sqrt(latent_dim + n_labels)
        for part in (self.from_z, self.from_label):
            nn.init.uniform_(part.weight, -bound, bound)
        layers: list[nn.Module] = [nn.ReLU()]
        widths = hidden[::-1]
        for width_in, width_out in pairwise(widths):
            layers += [nn.Linear(width_in, width_out), nn.ReLU()]
        self.rest = nn.Sequential(*layers, nn.Linear(widths[-1], math.prod(input_shape)))

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        pixels: Tensor = self.rest(self.from_z(z) + self.from_label(y))
        return pixels.reshape(-1, *self.input_shape)
