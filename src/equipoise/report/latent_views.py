"""What the model has learned, made visible: z kept and y changed, and one z moved at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data import Source
from equipoise.latent import LatentCovariateModel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

REACH = 2.5  # standard deviations of z that a traversal goes to either side


@dataclass(frozen=True)
class Counterfactuals:
    """Examples [B, …] and their decodings with z kept under every label [B, m, …]."""

    examples: Ints
    originals: Tensor
    decoded: Tensor


@dataclass(frozen=True)
class Traversals:
    """Decodings [dimensions, steps, …] as one z moves; the others and y = `label` stay."""

    dimensions: tuple[int, ...]
    offsets: tuple[float, ...]  # in standard deviations of that z
    label: int
    decoded: Tensor


@dataclass(frozen=True)
class FeatureEffects:
    """What label and z do to each feature of a table, in its standard deviations.

    by_label [features, m] is the difference from the mean over labels, with z kept;
    by_z [features, n] the change as one z goes from −1 to +1 standard deviation.
    """

    by_label: Floats
    by_z: Floats


@torch.no_grad()
def decode_counterfactuals(
    model: LatentCovariateModel, source: Source, examples: Ints, labels: Ints, environments: Ints
) -> Counterfactuals:
    """Encode the examples under their own labels, then decode under every label (Figure 5).

    `labels` and `environments` are the codes of the examples.
    """
    x, y, e = _fetch(model, source, examples, labels, environments)
    z, _ = model.encode(x, y, e)
    every = torch.arange(model.settings.n_labels, device=x.device)
    decoded = torch.stack([model.decode(row.expand(len(every), -1), every) for row in z])
    return Counterfactuals(examples, x.cpu(), decoded.cpu())


@torch.no_grad()
def traverse_latent(
    model: LatentCovariateModel,
    source: Source,
    examples: Ints,
    labels: Ints,
    environments: Ints,
    *,
    n_dimensions: int = 8,
    n_steps: int = 7,
) -> Traversals:
    """Move one z at a time around the mean of the examples; those that change most come first."""
    x, y, e = _fetch(model, source, examples, labels, environments)
    z, _ = model.encode(x, y, e)
    centre, spread = z.mean(0), z.std(0)
    label = int(np.bincount(labels).argmax())
    offsets = torch.linspace(-REACH, REACH, n_steps, device=z.device)
    rows = []
    for dimension in range(z.shape[1]):
        moved = centre.repeat(n_steps, 1)
        moved[:, dimension] += offsets * spread[dimension]
        rows.append(model.decode(moved, torch.full((n_steps,), label, device=z.device)))
    decoded = torch.stack(rows)
    change = (decoded[:, -1] - decoded[:, 0]).flatten(1).norm(dim=1)
    order = change.argsort(descending=True, stable=True)[:n_dimensions]
    return Traversals(tuple(order.tolist()), tuple(offsets.tolist()), label, decoded[order].cpu())


@torch.no_grad()
def measure_effects(
    model: LatentCovariateModel, source: Source, examples: Ints, labels: Ints, environments: Ints
) -> FeatureEffects:
    """How far label and each z move the features of a table, at the mean z of the examples."""
    x, y, e = _fetch(model, source, examples, labels, environments)
    z, _ = model.encode(x, y, e)
    centre, spread = z.mean(0), z.std(0)
    scale = x.flatten(1).double().std(0).clamp_min(1e-12)
    every = torch.arange(model.settings.n_labels, device=z.device)
    at_centre = model.decode(centre.expand(len(every), -1), every).flatten(1).double()  # [m, F]
    by_label = (at_centre - at_centre.mean(0)) / scale
    steps = torch.diag(spread)  # [n, n]
    by_z = []
    for step in steps:
        up = model.decode((centre + step).expand(len(every), -1), every)
        down = model.decode((centre - step).expand(len(every), -1), every)
        by_z.append((up - down).flatten(1).double().mean(0) / scale)
    return FeatureEffects(by_label.T.cpu().numpy(), torch.stack(by_z, dim=1).cpu().numpy())


def _fetch(
    model: LatentCovariateModel, source: Source, examples: Ints, labels: Ints, environments: Ints
) -> tuple[Tensor, Tensor, Tensor]:
    device = model.label_counts.device
    return (
        source.fetch(examples).to(device),
        torch.from_numpy(labels).to(device),
        torch.from_numpy(environments).to(device),
    )
