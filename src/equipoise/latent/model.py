"""The conditional VAE of Section 3.1 and its ELBO; its prior depends on label and environment."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.checks import check_count, check_memory, check_seed
from equipoise.files import load_state, save_state
from equipoise.latent.identifiability import (
    Identifiability,
    examine_identifiability,
    examine_labels,
)
from equipoise.latent.priors import get_prior

# Weights of encoder and decoder above which pixels are the wrong input: 3 × 128 × 128 of them
# at the paper's widths.
LARGEST_PERCEPTRONS = 100_000_000


@dataclass(frozen=True)
class ModelSettings:
    """All that is needed to build the same model again."""

    input_shape: tuple[int, ...]
    n_labels: int
    n_environments: int
    latent_dim: int
    prior: str
    hidden: tuple[int, ...]


def choose_latent_dim(
    n_labels: int, n_environments: int, statistics_per_dimension: int, input_shape: tuple[int, ...]
) -> int:
    """n = min(⌊(m·|E| − 1)/k⌋, cap): the largest size that keeps m·|E| > n·k (Theorem 3.3).

    The cap is the paper's: 16 for images up to 28×28 (and feature vectors), 64 above.

    >>> choose_latent_dim(7, 3, 2, (3, 224, 224))  # PACS
    10
    """
    cap = min(16 if is_small(input_shape) else 64, math.prod(input_shape))
    return max(1, min((n_labels * n_environments - 1) // statistics_per_dimension, cap))


def _check_size(s: ModelSettings, *, warn: bool) -> None:
    """Refuse networks that would not fit, each with moments of Adam; warn of many pixels."""
    hidden = [check_count("hidden", width, most=10**6) for width in s.hidden]
    n_weights = 2 * math.prod(s.input_shape) * hidden[0]  # of the outer layers: nearly all
    if warn and len(s.input_shape) == 3 and n_weights > LARGEST_PERCEPTRONS:
        sides = " × ".join(map(str, s.input_shape))
        warnings.warn(
            f"for images of {sides} pixels the latent model has {n_weights / 1e6:.0f} million "
            "weights. Give it features of a frozen backbone in their place (compute_features, or "
            "`equipoise data features`), or smaller images",
            stacklevel=4,
        )
    widths = [math.prod(s.input_shape) + s.n_labels + s.n_environments + 2 * s.latent_dim]
    widths += [*hidden, widths[0]]
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    check_memory(
        f"a model with hidden={s.hidden} and latent_dim={s.latent_dim}",
        2 * 4 * 4 * weights,
        hint="take smaller ones, or features in place of pixels",
    )


class LatentCovariateModel(nn.Module):
    """Encoder q(z|x,y,e), decoder p(x|z,y) shared by all environments, prior p(z|y,e).

    Parameters
    ----------
    input_shape : shape of one example, a feature vector or an image
    latent_dim : n; by default the largest that Theorem 3.3 allows, up to the paper's cap
    prior : name of a family in `equipoise.latent.priors`
    hidden : widths of the perceptrons, by default the paper's
    encoder : own module (x, y, e) -> mean and log-variance of z, each [B, n]; a third output
        [B, n(n−1)/2] is what stands below the diagonal of C in a full covariance CCᵀ
    decoder : own module (z, y) -> the mean of x [B, *input_shape]

    >>> model = LatentCovariateModel((2, 28, 28), n_labels=2, n_environments=2)
    >>> model
    LatentCovariateModel(input (2, 28, 28), 2 labels × 2 environments, n = 3, k = 1)
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        n_labels: int,
        n_environments: int,
        *,
        latent_dim: int | None = None,
        prior: str = "gaussian-fixed-variance",
        hidden: tuple[int, ...] | None = None,
        encoder: nn.Module | None = None,
        decoder: nn.Module | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        family = get_prior(prior)
        k = family.statistics_per_dimension
        if latent_dim is None:
            latent_dim = choose_latent_dim(n_labels, n_environments, k, input_shape)
        latent_dim = check_count("latent_dim", latent_dim, most=10_000)
        check_seed("seed", seed)
        if n_labels * n_environments <= latent_dim * k:
            largest = (n_labels * n_environments - 1) // k
            warnings.warn(
                f"latent_dim={latent_dim} breaks the condition m·|E| > n·k of Theorem 3.3: "
                f"{n_labels} labels × {n_environments} environments = "
                f"{n_labels * n_environments} pairs, but n·k = {latent_dim * k}; "
                f"Z may not be identifiable above latent_dim={largest}",
                stacklevel=2,
            )
        # The paper's sizes.
        hidden = hidden or ((512, 512) if is_small(input_shape) else (1024, 1024, 1024))
        self.settings = ModelSettings(
            tuple(input_shape), n_labels, n_environments, latent_dim, prior, tuple(hidden)
        )
        _check_size(self.settings, warn=encoder is None or decoder is None)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder = encoder or MLPEncoder(self.settings)
            self.decoder = decoder or MLPDecoder(self.settings)
        self.prior = family(n_labels, n_environments, latent_dim)
        # Feature vectors are brought to the scale on which the noise has unit variance.
        self.register_buffer("x_shift", torch.zeros(()))
        self.register_buffer("x_scale", torch.ones(()))
        counts = torch.zeros(n_environments, n_labels, dtype=torch.float64)
        self.register_buffer("label_counts", counts)

    x_shift: Tensor
    x_scale: Tensor
    label_counts: Tensor  # [|E|, m], of the examples it was fitted on

    def standardize(self, x: Tensor) -> Tensor:
        return ((x - self.x_shift) * self.x_scale).float()

    def encode(self, x: Tensor, y: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log-variance of q(z|x,y,e), each [B, n]."""
        mean, log_variance = self.encoder(self.standardize(x), y, e)[:2]
        return mean, log_variance

    def encode_hypotheses(self, x: Tensor, e: Tensor) -> Tensor:
        """Means of z when x is encoded under every label y' in turn [B, m, n]."""
        x = self.standardize(x)
        if isinstance(self.encoder, MLPEncoder):
            return self.encoder.encode_hypotheses(x, e)
        labels = range(self.settings.n_labels)
        return torch.stack([self.encoder(x, torch.full_like(e, y), e)[0] for y in labels], dim=1)

    def decode(self, z: Tensor, y: Tensor) -> Tensor:
        """The mean of p(x|z,y), on the scale of the data."""
        spread = torch.where(self.x_scale > 0, 1.0 / self.x_scale, 0.0)  # constant features: 0
        x: Tensor = self.decoder(z, y) * spread + self.x_shift
        return x.float()

    def negative_elbo(
        self, x: Tensor, y: Tensor, e: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The ELBO of Section 3.1: reconstruction error and KL(q‖p) [B]; their sum is −ELBO."""
        mean, log_variance, *below = self.encoder(self.standardize(x), y, e)
        if below:
            z, log_marginal, dependence = _draw_dependent(mean, log_variance, below[0], noise)
        else:
            z, log_marginal = mean + noise * (0.5 * log_variance).exp(), log_variance
        missed = (self.decoder(z, y) - self.standardize(x)).flatten(1)
        reconstruction = 0.5 * missed.square().sum(-1)  # Gaussian noise of unit variance
        divergence = self.prior.divergence(mean, log_marginal, y, e)
        return reconstruction, divergence + dependence if below else divergence

    def log_label_frequencies(self) -> Tensor:
        """log p^e(y) [|E|, m] of the training examples; −inf where a label never occurs."""
        if not bool(self.label_counts.any()):
            raise ValueError("this model has not been fitted: call fit_model first")
        return (self.label_counts / self.label_counts.sum(1, keepdim=True)).log()

    def identifiability(self) -> Identifiability:
        """Rank and condition of the matrix L of Theorem 3.3 at the fitted prior, over all pairs."""
        return examine_identifiability(*self._varied_parameters())

    def identifiability_within_labels(self) -> tuple[Identifiability, ...]:
        """The same for each label's own environments: what the data tell without smoothness."""
        return examine_labels(*self._varied_parameters())

    def _varied_parameters(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """λ^e(y) [m, |E|, n·k] of the prior, and which pairs had examples [m, |E|]."""
        parameters = self.prior.natural_parameters().double().numpy(force=True)
        return parameters, (self.label_counts > 0).T.numpy(force=True)

    def save(self, path: str | Path) -> None:
        """Write weights and settings as one safetensors file."""
        save_state(path, self.state_dict(), {"latent_covariate_model": asdict(self.settings)})

    @classmethod
    def load(
        cls, path: str | Path, *, encoder: nn.Module | None = None, decoder: nn.Module | None = None
    ) -> LatentCovariateModel:
        """Read what `save` wrote; own modules must be handed in again."""
        tensors, facts = load_state(path)
        try:
            settings = facts["latent_covariate_model"]
        except (KeyError, TypeError):
            raise ValueError(f"{path} does not hold a LatentCovariateModel") from None
        return cls.rebuild(tensors, settings, encoder=encoder, decoder=decoder)

    @classmethod
    def rebuild(
        cls, tensors: Mapping[str, Tensor], settings: Mapping[str, Any], **modules: Any
    ) -> LatentCovariateModel:
        """A model from its `state_dict` and its `settings` as plain values."""
        settings = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cls(**settings, **modules)
        model.x_shift, model.x_scale = tensors["x_shift"], tensors["x_scale"]
        model.load_state_dict(tensors)
        return model

    def __repr__(self) -> str:
        s = self.settings
        return (
            f"LatentCovariateModel(input {s.input_shape}, {s.n_labels} labels × "
            f"{s.n_environments} environments, n = {s.latent_dim}, "
            f"k = {self.prior.statistics_per_dimension})"
        )


def _draw_dependent(
    mean: Tensor, log_variance: Tensor, below: Tensor, noise: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """z from a Gaussian with full covariance CCᵀ, its log marginal variances, and what KL adds."""
    n = mean.shape[-1]
    rows, columns = torch.tril_indices(n, n, -1, device=mean.device)
    factor = torch.diag_embed((0.5 * log_variance).exp())
    factor[:, rows, columns] = below
    z = mean + (factor @ noise[..., None])[..., 0]
    log_marginal = factor.square().sum(-1).log()
    return z, log_marginal, 0.5 * (log_marginal - log_variance).sum(-1)


def is_small(input_shape: tuple[int, ...]) -> bool:
    """Whether the paper's sizes for 28×28 images apply; to feature vectors they do as well."""
    return len(input_shape) == 1 or math.prod(input_shape[-2:]) <= 28 * 28


class MLPEncoder(nn.Module):
    """q(z | x, y, e), its first layer in three parts: x is read once, whatever labels are tried."""

    def __init__(self, s: ModelSettings) -> None:
        super().__init__()
        n_pixels = math.prod(s.input_shape)
        self.from_x = nn.Linear(n_pixels, s.hidden[0])
        self.from_label = nn.Embedding(s.n_labels, s.hidden[0])
        self.from_environment = nn.Embedding(s.n_environments, s.hidden[0])
        # The three parts start as one linear layer would: x speaks louder than the label.
        bound = 1.0 / math.sqrt(n_pixels + s.n_labels + s.n_environments)
        for part in (self.from_x, self.from_label, self.from_environment):
            nn.init.uniform_(part.weight, -bound, bound)
        self.rest = _stack_layers(s.hidden, 2 * s.latent_dim)

    def forward(self, x: Tensor, y: Tensor, e: Tensor) -> tuple[Tensor, Tensor]:
        first = self.from_x(x.flatten(1)) + self.from_label(y) + self.from_environment(e)
        mean, log_variance = self.rest(first).chunk(2, dim=-1)
        return mean, log_variance

    def encode_hypotheses(self, x: Tensor, e: Tensor) -> Tensor:
        first = self.from_x(x.flatten(1)) + self.from_environment(e)
        rows = [self.rest(first + label).chunk(2, dim=-1)[0] for label in self.from_label.weight]
        return torch.stack(rows, dim=1)


class MLPDecoder(nn.Module):
    """p(x | z, y) as a perceptron on z with the label one-hot beside it; no environment."""

    def __init__(self, s: ModelSettings) -> None:
        super().__init__()
        self.input_shape = s.input_shape
        self.from_z = nn.Linear(s.latent_dim, s.hidden[-1])
        self.from_label = nn.Embedding(s.n_labels, s.hidden[-1])
        bound = 1.0 / math.sqrt(s.latent_dim + s.n_labels)
        for part in (self.from_z, self.from_label):
            nn.init.uniform_(part.weight, -bound, bound)
        self.rest = _stack_layers(s.hidden[::-1], math.prod(s.input_shape))

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        pixels: Tensor = self.rest(self.from_z(z) + self.from_label(y))
        return pixels.reshape(-1, *self.input_shape)


def _stack_layers(widths: tuple[int, ...], n_outputs: int) -> nn.Sequential:
    """What follows the first layer of a perceptron, whose output has `widths[0]`."""
    layers: list[nn.Module] = [nn.ReLU()]
    for width_in, width_out in itertools.pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], n_outputs))
