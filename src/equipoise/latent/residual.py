"""Perceptrons beside a linear map, for feature vectors whose latents are to be told exactly.

Their q(z | x, y, e) may have every covariance: a posterior without them prefers latents whose
effects on x are orthogonal, whatever the prior says.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot

from equipoise.latent.model import LatentCovariateModel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

START_LOG_VARIANCE = -3.0  # of the first q(z | x, y, e)


class _LabelledMaps(nn.Module):
    """A linear map plus a perceptron, which is told the label: for all labels, or one for each."""

    def __init__(
        self,
        n_inputs: int,
        n_told: int,
        n_linear: int,
        n_outputs: int,
        n_labels: int,
        hidden: tuple[int, ...],
        per_label: bool,
    ) -> None:
        super().__init__()
        self.n_labels, self.per_label = n_labels, per_label
        width_in = n_inputs + n_told + (0 if per_label else n_labels)
        copies = n_labels if per_label else 1
        self.linear = nn.ModuleList(nn.Linear(n_inputs, n_linear) for _ in range(copies))
        self.bent = nn.ModuleList(
            _make_perceptron(width_in, hidden, n_outputs) for _ in range(copies)
        )

    def forward(self, inputs: Tensor, told: Tensor, y: Tensor) -> Tensor:
        """Outputs [B, n_outputs]; the linear map adds to the first `n_linear` of them."""
        if not self.per_label:
            told = torch.cat([told, one_hot(y, self.n_labels).to(inputs.dtype)], dim=1)
            return self._run_copy(0, inputs, told)
        pieces, rows = [], []
        for label in range(self.n_labels):
            members = (y == label).nonzero()[:, 0]
            rows.append(members)
            pieces.append(self._run_copy(label, inputs[members], told[members]))
        return torch.cat(pieces)[torch.cat(rows).argsort()]

    def _run_copy(self, copy: int, inputs: Tensor, told: Tensor) -> Tensor:
        straight: Tensor = self.linear[copy](inputs)
        bent: Tensor = self.bent[copy](torch.cat([inputs, told], dim=1))
        return nn.functional.pad(straight, (0, bent.shape[1] - straight.shape[1])) + bent


class ResidualEncoder(nn.Module):
    """q(z | x, y, e): Gaussian with full covariance, its mean linear in x plus a perceptron.

    `per_label` gives every label a network of its own. `feature_noise` must be that of the
    fit: inputs arrive in units of it.

    >>> encoder = ResidualEncoder(8, 2, 3, latent_dim=5)
    >>> y = torch.tensor([0, 1])
    >>> [tuple(part.shape) for part in encoder(torch.zeros(2, 8), y, y)]
    [(2, 5), (2, 5), (2, 10)]
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        n_environments: int,
        latent_dim: int,
        *,
        hidden: tuple[int, ...] = (128, 128),
        per_label: bool = False,
        feature_noise: float = 0.1,
    ) -> None:
        super().__init__()
        self.n_environments, self.latent_dim = n_environments, latent_dim
        self.feature_noise = feature_noise
        n_outputs = 2 * latent_dim + latent_dim * (latent_dim - 1) // 2
        self.maps = _LabelledMaps(
            n_features, n_environments, latent_dim, n_outputs, n_labels, hidden, per_label
        )
        with torch.no_grad():
            for network in self.maps.bent:
                network[-1].bias[latent_dim : 2 * latent_dim] = START_LOG_VARIANCE  # type: ignore

    def forward(self, x: Tensor, y: Tensor, e: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        told = one_hot(e, self.n_environments).to(x.dtype)
        outputs: Tensor = self.maps(self.feature_noise * x, told, y)
        n = self.latent_dim
        return outputs[:, :n], outputs[:, n : 2 * n], outputs[:, 2 * n :]


class ResidualDecoder(nn.Module):
    """p(x | z, y): its mean linear in z plus a perceptron; see `ResidualEncoder`.

    >>> ResidualDecoder(8, 2, latent_dim=5)(torch.zeros(3, 5), torch.tensor([0, 1, 1])).shape
    torch.Size([3, 8])
    """

    def __init__(
        self,
        n_features: int,
        n_labels: int,
        latent_dim: int,
        *,
        hidden: tuple[int, ...] = (128, 128),
        per_label: bool = False,
        feature_noise: float = 0.1,
    ) -> None:
        super().__init__()
        self.feature_noise = feature_noise
        self.maps = _LabelledMaps(
            latent_dim, 0, n_features, n_features, n_labels, hidden, per_label
        )

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        x: Tensor = self.maps(z, z[:, :0], y)
        return x / self.feature_noise


@torch.no_grad()
def start_from_components(
    model: LatentCovariateModel, x: Tensor, labels: Tensor, environments: Tensor
) -> None:
    """Start a residual model, linear maps and prior, at the best linear guess at z."""
    encoder, decoder = model.encoder, model.decoder
    if not isinstance(encoder, ResidualEncoder) or not isinstance(decoder, ResidualDecoder):
        raise TypeError(
            "start_from_components needs a model with ResidualEncoder and ResidualDecoder, got "
            f"{type(encoder).__name__} and {type(decoder).__name__}"
        )
    y, e = labels.numpy(force=True), environments.numpy(force=True)
    rows = x.double().numpy(force=True)
    deviation = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    z = np.empty((len(rows), encoder.latent_dim))
    for copy in range(len(encoder.maps.linear)):
        here = y == copy if encoder.maps.per_label else np.ones(len(y), dtype=bool)
        separate = model.prior.statistics_per_dimension > 1
        codes = y[here], e[here]
        forth, back = find_components(rows[here], *codes, encoder.latent_dim, separate=separate)
        origin = rows[here].mean(axis=0)
        z[here] = (rows[here] - origin) @ forth.T
        _set_linear(encoder.maps.linear[copy], forth, -forth @ origin)
        _set_linear(decoder.maps.linear[copy], back, origin)
    for label, environment in np.ndindex(model.settings.n_labels, model.settings.n_environments):
        members = z[(y == label) & (e == environment)]
        if len(members) > 1:
            model.prior.start_at(label, environment, torch.from_numpy(members))


def _set_linear(layer: nn.Module, weight: NDArray, bias: NDArray) -> None:
    for name, value in (("weight", weight), ("bias", bias)):
        getattr(layer, name).copy_(torch.from_numpy(np.ascontiguousarray(value)))


def _make_perceptron(n_inputs: int, hidden: tuple[int, ...], n_outputs: int) -> nn.Sequential:
    """Layers with leaky ReLU between; a quiet last one, so that the linear map comes first."""
    widths = (n_inputs, *hidden)
    layers: list[nn.Module] = []
    for width_in, width_out in pairwise(widths):
        layers += [nn.Linear(width_in, width_out), nn.LeakyReLU()]
    last = nn.Linear(widths[-1], n_outputs)
    with torch.no_grad():
        last.weight.mul_(0.1)
    return nn.Sequential(*layers, last)


def find_components(
    x: Floats, labels: Ints, environments: Ints, n_components: int, *, separate: bool
) -> tuple[Floats, Floats]:
    """Linear maps x -> z [n, features] and back [features, n] such that z suits a Gaussian prior.

    The leading directions within labels, turned so that within a (label, environment) pair z has
    unit covariance on average; with `separate` further, until z has as little covariance as
    possible in every single pair: what k = 2 expects of its axes.

    >>> x, zeros = np.random.default_rng(0).normal(size=(1000, 2)), np.zeros(1000, int)
    >>> into, back = find_components(x, zeros, np.repeat([0, 1], 500), 2, separate=True)
    >>> bool(np.allclose(back @ into, np.eye(2)))
    True
    """
    centred = x - _group_means(x, labels)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:n_components]
    pairs = environments * (int(labels.max()) + 1) + labels
    z = x @ directions.T
    within = z - _group_means(z, pairs)
    values, vectors = np.linalg.eigh(within.T @ within / len(x))
    deviation = np.sqrt(np.maximum(values, 1e-12 * values.max()))
    turn = (vectors / deviation).T  # [n, n], to unit covariance
    undo = vectors * deviation
    if separate:
        within = within @ turn.T
        codes, counts = np.unique(pairs, return_counts=True)
        enough = codes[counts > 2 * n_components]
        covariances = [np.cov(within[pairs == pair].T) for pair in enough]
        if len(covariances) > 1 and n_components > 1:
            rotation = diagonalize_jointly(np.stack(covariances))
            turn, undo = rotation @ turn, undo @ rotation.T
    return turn @ directions, directions.T @ undo


def diagonalize_jointly(matrices: Floats) -> Floats:
    """The rotation R [n, n] that makes all R·C·Rᵀ most diagonal, C [p, n, n], by Jacobi."""
    n = matrices.shape[1]
    rotation = np.eye(n)
    for _ in range(50):
        largest = 0.0
        for i, j in combinations(range(n), 2):
            difference = matrices[:, i, i] - matrices[:, j, j]
            double = 2.0 * matrices[:, i, j]
            on = float(difference @ difference - double @ double)
            off = float(2.0 * difference @ double)
            angle = 0.25 * np.arctan2(off, on)
            largest = max(largest, abs(angle))
            turn = np.eye(n)
            turn[i, i] = turn[j, j] = np.cos(angle)
            turn[i, j], turn[j, i] = np.sin(angle), -np.sin(angle)
            matrices = turn @ matrices @ turn.T
            rotation = turn @ rotation
        if largest < 1e-8:
            break
    return rotation


def _group_means(x: Floats, groups: Ints) -> Floats:
    """The mean of each row's group [N, features]."""
    _, codes = np.unique(groups, return_inverse=True)
    sums = np.zeros((codes.max() + 1, x.shape[1]))
    np.add.at(sums, codes, x)
    return np.asarray((sums / np.bincount(codes)[:, None])[codes])
