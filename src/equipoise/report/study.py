"""What a report is about: a balancer, its examples, the anchors and the decodings to show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.balance import Matches
from equipoise.balancer import CausalBalancer
from equipoise.data import Source
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.examining import Examined
from equipoise.latent import LatentCovariateModel

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Shown = tuple[Source, Ints, Ints, Ints]  # examples, rows of them, their labels and environments


@dataclass(frozen=True)
class Study:
    """What the sections of a report look at: examples, what was made of them, and their names.

    `texts` are shown in place of features.
    """

    balancer: CausalBalancer
    diagnostics: BalanceDiagnostics
    found: Examined
    feature_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    texts: Sequence[str] | None = None

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.diagnostics.label_names

    @property
    def environment_names(self) -> tuple[str, ...]:
        return self.diagnostics.environment_names

    @property
    def model(self) -> LatentCovariateModel | None:
        return self.balancer.latent_model_

    @property
    def matches(self) -> Matches | None:
        return self.found.matches if isinstance(self.found.matches, Matches) else None

    def take(self, rows: Ints) -> Shown:
        """Examples, rows and their codes, as the views of the model ask for them."""
        found = self.found
        return found.source, rows, found.labels[rows], found.environments[rows]

    def draw_rows(self, n_at_most: int, generator: np.random.Generator) -> Ints:
        """All rows, or so many at random, in order."""
        n = len(self.found.labels)
        if n <= n_at_most:
            return np.arange(n)
        return np.sort(generator.choice(n, n_at_most, replace=False))


def make_study(
    balancer: CausalBalancer,
    found: Examined,
    diagnostics: BalanceDiagnostics,
    *,
    feature_names: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
) -> Study:
    """A balancer with the examples that were examined, and the names their diagnosis has."""
    shape: tuple[int, ...] = ()
    if balancer.latent_model_ is not None:
        shape = tuple(balancer.latent_model_.settings.input_shape)
    elif found.source is not None:
        shape = tuple(found.source.fetch(np.zeros(1, dtype=np.int64)).shape[1:])
    if texts is not None and len(texts) != len(found.labels):
        raise ValueError(
            f"texts has {len(texts)} entries, but there are {len(found.labels)} examples: give "
            "one text for each, in the same order"
        )
    n_features, names = math.prod(shape), feature_names or found.feature_names
    if names is not None and shape and len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names, but an example has {n_features} features: "
            "give one name for each"
        )
    if names is None:
        names = [f"feature {i + 1}" for i in range(n_features)]
    return Study(balancer, diagnostics, found, tuple(map(str, names)), shape, texts)


class ShownMatch(NamedTuple):
    """A match of an anchor: its row, its label code, the distance of the scores."""

    example: int
    label: int
    distance: float


class ShownAnchor(NamedTuple):
    """An anchor and, nearest labels first, its nearest matches.

    `n_near` counts, for each label shown, the matches a batch draws from.
    """

    example: int
    matches: tuple[ShownMatch, ...]
    n_near: dict[int, int]


def choose_anchors(
    labels: Ints, environments: Ints, n_anchors: int, generator: np.random.Generator
) -> Ints:
    """Rows drawn at random, as evenly from all (label, environment) pairs as they allow.

    Where there are more pairs than room, every label comes once before any comes twice.

    >>> y, e = np.array([0, 0, 0, 1]), np.zeros(4, dtype=int)
    >>> np.unique(y[choose_anchors(y, e, 2, np.random.default_rng(0))])
    array([0, 1])
    """
    shuffled = generator.permutation(len(labels))
    y, e = labels[shuffled], environments[shuffled]
    n_environments = int(environments.max(initial=0)) + 1
    turn = (e - y) % n_environments  # each label begins with another environment
    round_ = _count_before(y * n_environments + e)
    first = np.flatnonzero(round_ == 0)
    first = first[np.argsort(turn[first], kind="stable")]
    place = np.zeros((int(labels.max(initial=0)) + 1, n_environments), dtype=np.int64)
    place[y[first], e[first]] = _count_before(y[first])  # of the pair among its label's pairs
    taken = shuffled[np.lexsort((y, place[y, e], round_))][:n_anchors]
    return np.asarray(taken[np.lexsort((environments[taken], labels[taken]))], dtype=np.int64)


def _count_before(codes: Ints) -> Ints:
    """How often each code [N] has come before, reading from the start."""
    return np.asarray(pd.Series(codes).groupby(codes).cumcount())


def find_farthest(matches: Matches, n_anchors: int) -> Ints:
    """Anchors whose nearest match of some label is the farthest: where matching is weakest."""
    nearest = matches.distances[:, :, 0]
    worst = np.where(np.isfinite(nearest), nearest, -1.0).max(axis=1)
    order = np.argsort(-worst, kind="stable")[:n_anchors]
    return np.asarray(order[worst[order] > 0], dtype=np.int64)


def show_anchors(
    matches: Matches, anchors: Ints, *, n_labels: int = 12, per_label: int = 3
) -> tuple[ShownAnchor, ...]:
    """Each anchor with `per_label` matches of up to `n_labels` labels, nearest first."""
    shown = []
    for anchor in anchors.tolist():
        indices, distances = matches.indices[anchor], matches.distances[anchor]  # [m, k]
        found = np.flatnonzero(indices[:, 0] >= 0)
        nearest = found[np.argsort(distances[found, 0], kind="stable")][:n_labels]
        listed = tuple(
            ShownMatch(int(indices[label, place]), int(label), float(distances[label, place]))
            for label in nearest
            for place in range(min(per_label, indices.shape[1]))
            if indices[label, place] >= 0
        )
        n_near = {int(label): int((indices[label] >= 0).sum()) for label in nearest}
        shown.append(ShownAnchor(anchor, listed, n_near))
    return tuple(shown)


# --- what the model has learned: z kept and y changed, and one z moved at a time ----------------

REACH = 2.5  # standard deviations of z that a traversal goes to either side
N_STEPS, MOST_DIMENSIONS = 7, 8


class Counterfactuals(NamedTuple):
    """Examples [B, …] and their decodings with z kept under every label [B, m, …]."""

    originals: Tensor
    decoded: Tensor


class Traversals(NamedTuple):
    """Decodings [dimensions, steps, …] as one z moves; the others and y = `label` stay."""

    dimensions: tuple[int, ...]
    offsets: tuple[float, ...]  # in standard deviations of that z
    label: int
    decoded: Tensor


class FeatureEffects(NamedTuple):
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
    """Encode examples under their own labels (codes), then decode under every label (Figure 5)."""
    x, z = _encode(model, (source, examples, labels, environments))
    every = torch.arange(model.settings.n_labels, device=x.device)
    decoded = torch.stack([model.decode(row.expand(len(every), -1), every) for row in z])
    return Counterfactuals(x.cpu(), decoded.cpu())


@torch.no_grad()
def traverse_latent(model: LatentCovariateModel, shown: Shown) -> Traversals:
    """Move one z at a time around the mean of the examples; those that change most come first."""
    _, z = _encode(model, shown)
    centre, spread = z.mean(0), z.std(0)
    label = int(np.bincount(shown[2]).argmax())
    offsets = torch.linspace(-REACH, REACH, N_STEPS, device=z.device)
    fixed = torch.full((N_STEPS,), label, device=z.device)
    steps = [offsets[:, None] * one for one in torch.diag(spread)]  # one z at a time
    decoded = torch.stack([model.decode(centre + step, fixed) for step in steps])
    change = (decoded[:, -1] - decoded[:, 0]).flatten(1).norm(dim=1)
    order = change.argsort(descending=True, stable=True)[:MOST_DIMENSIONS]
    return Traversals(tuple(order.tolist()), tuple(offsets.tolist()), label, decoded[order].cpu())


@torch.no_grad()
def measure_effects(model: LatentCovariateModel, shown: Shown) -> FeatureEffects:
    """How far label and each z move the features of a table, at the mean z of the examples."""
    x, z = _encode(model, shown)
    centre, spread = z.mean(0), z.std(0)
    scale = x.flatten(1).double().std(0).clamp_min(1e-12)
    every = torch.arange(model.settings.n_labels, device=z.device)
    at_centre = model.decode(centre.expand(len(every), -1), every).flatten(1).double()  # [m, F]
    by_label = (at_centre - at_centre.mean(0)) / scale
    by_z = []
    for step in torch.diag(spread):
        up, down = (
            model.decode((centre + way * step).expand(len(every), -1), every) for way in (1, -1)
        )
        by_z.append((up - down).flatten(1).double().mean(0) / scale)
    return FeatureEffects(by_label.T.cpu().numpy(), torch.stack(by_z, dim=1).cpu().numpy())


def _encode(model: LatentCovariateModel, shown: Shown) -> tuple[Tensor, Tensor]:
    """Examples [B, …] and their z [B, n], on the model's device."""
    (source, rows, *codes), device = shown, model.label_counts.device
    x = source.fetch(rows).to(device)
    y, e = (torch.from_numpy(part).to(device) for part in codes)
    return x, model.encode(x, y, e)[0]
