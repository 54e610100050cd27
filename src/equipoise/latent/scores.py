"""Equation 3: z -> balancing scores log p^e(y' | z), by Bayes from the prior p(z | y, e)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.checks import check_choice
from equipoise.data import Source
from equipoise.latent.model import LatentCovariateModel

READINGS = ("observed", "hypothesised")
_BLOCK = 1024


@torch.no_grad()
def log_scores(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
    *,
    reading: str,
) -> NDArray[np.float64]:
    """Equation 3: log s^e(z) [N, m] of every example, in one of the two readings of the paper.

    p^e(y' | z) is proportional to p(z | y', e) · p^e(y'), normalised over the labels.

    "observed" takes z from q(z|x,y,e) with the example's own label, as the text does;
    "hypothesised" encodes x under every label y' and weighs each z by its own label's prior,
    so that the score is a function of x and e alone.
    """
    check_choice("reading", reading, READINGS)
    log_frequencies = model.log_label_frequencies()
    every = torch.arange(model.settings.n_labels, device=log_frequencies.device)
    rows = []
    for x, y, e in _blocks(model, source, labels, environments):
        if reading == "observed":
            z = model.encode(x, y, e)[0][:, None]  # [B, 1, n]
        else:
            z = model.encode_hypotheses(x, e)  # [B, m, n], a z for each y'
        log_density = model.prior.log_density(z.double(), every, e[:, None])
        rows.append(log_density + log_frequencies[e])
    return torch.cat(rows).log_softmax(dim=1).numpy(force=True)


@torch.no_grad()
def label_free_z(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
) -> NDArray[np.float64]:
    """z [N, n] averaged over all labels x might have: a yardstick that no label enters."""
    rows = [
        model.encode_hypotheses(x, e).double().mean(dim=1)
        for x, _, e in _blocks(model, source, labels, environments)
    ]
    return torch.cat(rows).numpy(force=True)


def _blocks(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    device = model.label_counts.device
    for start in range(0, len(labels), _BLOCK):
        indices = np.arange(start, min(start + _BLOCK, len(labels)))
        x = source.fetch(indices).to(device)
        y = torch.from_numpy(labels[indices]).to(device)
        e = torch.from_numpy(environments[indices]).to(device)
        yield x, y, e
