"""Families for the prior p(z | y, e): one set of parameters per (label, environment) pair."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.checks import check_choice


class PriorFamily(nn.Module, ABC):
    """An exponential family p(z | y, e), factorised over the n dimensions of z.

    Defining a subclass registers it under its `name`.
    """

    name: str
    statistics_per_dimension: int  # k of Theorem 3.3

    families: ClassVar[dict[str, type[PriorFamily]]] = {}

    def __init__(self, n_labels: int, n_environments: int, latent_dim: int) -> None:
        super().__init__()
        self.n_labels, self.n_environments = n_labels, n_environments
        self.latent_dim = latent_dim
        self.shape = (n_labels, n_environments, latent_dim)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        PriorFamily.families[cls.name] = cls

    @abstractmethod
    def log_density(self, z: Tensor, y: Tensor, e: Tensor) -> Tensor:
        """log p(z | y, e) [...], for z [..., n] and y, e that broadcast to [...]."""

    @abstractmethod
    def divergence(self, mean: Tensor, log_variance: Tensor, y: Tensor, e: Tensor) -> Tensor:
        """KL(N(mean, exp(log_variance)) ‖ p(z | y, e)) [B], in closed form."""

    def start_at(self, label: int, environment: int, z: Tensor) -> None:
        """Take first parameters for a pair from a guess at its z [N, n]; by default none are."""

    @abstractmethod
    def natural_parameters(self) -> Tensor:
        """λ^e(y) of every pair [m, |E|, n·k]."""


class FixedVarianceGaussian(PriorFamily):
    """N(μ(y, e), 1): k = 1, the sufficient statistic is z itself."""

    name = "gaussian-fixed-variance"
    statistics_per_dimension = 1

    def __init__(self, n_labels: int, n_environments: int, latent_dim: int) -> None:
        super().__init__(n_labels, n_environments, latent_dim)
        self.mean = nn.Parameter(torch.zeros(self.shape))

    def log_density(self, z: Tensor, y: Tensor, e: Tensor) -> Tensor:
        mean = self.mean.to(z.dtype)[y, e]
        return -0.5 * ((z - mean).square() + math.log(2 * math.pi)).sum(-1)

    def divergence(self, mean: Tensor, log_variance: Tensor, y: Tensor, e: Tensor) -> Tensor:
        shift = (mean - self.mean[y, e]).square()
        return 0.5 * (log_variance.exp() + shift - 1.0 - log_variance).sum(-1)

    @torch.no_grad()
    def start_at(self, label: int, environment: int, z: Tensor) -> None:
        self.mean[label, environment] = z.mean(dim=0).to(self.mean)

    def natural_parameters(self) -> Tensor:
        return self.mean.detach()


class DiagonalGaussian(FixedVarianceGaussian):
    """N(μ(y, e), diag σ²(y, e)): k = 2, the sufficient statistics are z and z²."""

    name = "gaussian"
    statistics_per_dimension = 2

    def __init__(self, n_labels: int, n_environments: int, latent_dim: int) -> None:
        super().__init__(n_labels, n_environments, latent_dim)
        self.log_variance = nn.Parameter(torch.zeros(self.shape))

    def log_density(self, z: Tensor, y: Tensor, e: Tensor) -> Tensor:
        mean = self.mean.to(z.dtype)[y, e]
        log_variance = self.log_variance.to(z.dtype)[y, e]
        scaled = (z - mean).square() * (-log_variance).exp()
        return -0.5 * (scaled + log_variance + math.log(2 * math.pi)).sum(-1)

    def divergence(self, mean: Tensor, log_variance: Tensor, y: Tensor, e: Tensor) -> Tensor:
        own = self.log_variance[y, e]
        shift = (mean - self.mean[y, e]).square()
        ratio = (log_variance.exp() + shift) * (-own).exp()
        return 0.5 * (ratio - 1.0 - log_variance + own).sum(-1)

    @torch.no_grad()
    def start_at(self, label: int, environment: int, z: Tensor) -> None:
        super().start_at(label, environment, z)
        self.log_variance[label, environment] = z.var(dim=0).log().to(self.mean)

    def natural_parameters(self) -> Tensor:
        precision = (-self.log_variance.detach()).exp()
        return torch.cat([self.mean.detach() * precision, -0.5 * precision], dim=-1)


def get_prior(name: str) -> type[PriorFamily]:
    """The family of that name; an unknown one is a ValueError that lists the known."""
    return PriorFamily.families[check_choice("prior", name, PriorFamily.families)]
