"""z -> balancing scores: log p^e(y' | z) by Bayes from the prior (Equation 3)."""

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


@torch.no_grad()
def log_scores(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
    *,
    score: str,
    block: int = 1024,
) -> NDArray[np.float64]:
    """log s^e(z) [N, m] of every example, in one of the two readings of the paper.

    "observed" takes z from q(z|x,y,e) with the example's own label, as the text does;
    "hypothesised" encodes x under every label y' and weighs each z by its own label's prior,
    so that the score is a function of x and e alone.
    """
    check_choice("score", score, READINGS)
    log_frequencies = model.log_label_frequencies()
    rows = []
    for x, y, e in _blocks(model, source, labels, environments, block):
        z = model.encode(x, y, e)[0] if score == "observed" else model.encode_hypotheses(x, e)
        rows.append(log_posterior(model, z.double(), e) + log_frequencies[e])
    return torch.cat(rows).log_softmax(dim=1).numpy(force=True)


def log_posterior(model: LatentCovariateModel, z: Tensor, e: Tensor) -> Tensor:
    """log p(z | y', e) for every y' [B, m]; z is [B, n], or [B, m, n] with a z for each y'."""
    every = torch.arange(model.settings.n_labels, device=z.device)
    return model.prior.log_density(z if z.ndim == 3 else z[:, None], every, e[:, None])


@torch.no_grad()
def label_free_z(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
    *,
    block: int = 1024,
) -> NDArray[np.float64]:
    """z [N, n] averaged over all labels x might have: a yardstick that no label enters."""
    rows = [
        model.encode_hypotheses(x, e).double().mean(dim=1)
        for x, _, e in _blocks(model, source, labels, environments, block)
    ]
    return torch.cat(rows).numpy(force=True)


def _blocks(
    model: LatentCovariateModel,
    source: Source,
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
    block: int,
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    device = model.label_counts.device
    for start in range(0, len(labels), block):
        indices = np.arange(start, min(start + block, len(labels)))
        x = source.fetch(indices).to(device)
        y = torch.from_numpy(labels[indices]).to(device)
        e = torch.from_numpy(environments[indices]).to(device)
        yield x, y, e
