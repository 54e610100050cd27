"""What is there to gain: a plain classifier where the label depends on Z, and where it does not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.denormals import flush_denormals

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Examples that the classifier learns from and is tested on, together.
MAX_EXAMPLES = 12_000
HIDDEN = 64
STEPS = 400
BATCH = 128
#: Accuracy below which a gain is small, and from which on a gain or a loss is large.
SMALL, LARGE = 0.02, 0.1


@dataclass(frozen=True)
class Gain:
    """Accuracies of a small classifier on examples it has not seen.

    plain: trained and tested on the data as they are; plain_balanced: the same classifier tested
    where the label does not depend on Z; balanced: trained and tested there. `error` is the
    standard error of the difference between these two, which were tested on the same examples;
    `chance` is what the most frequent label would reach there.
    """

    plain: float
    plain_balanced: float
    balanced: float
    error: float
    chance: float = 0.0

    @property
    def loss(self) -> float:
        """Accuracy that the plain classifier owes to the dependence."""
        return self.plain - self.plain_balanced

    @property
    def gain(self) -> float:
        """Accuracy that balanced training adds where nothing is spurious."""
        return self.balanced - self.plain_balanced

    @property
    def sees(self) -> bool:
        """The classifier sees enough besides Z to have a say: it beats chance without it."""
        return self.plain_balanced >= self.chance + LARGE


def choose_gain_examples(n: int, seed: int) -> Ints:
    """The rows from which `estimate_gain` learns, at most 12,000, in random order."""
    generator = np.random.default_rng([seed, 0x6A19])
    return generator.permutation(n)[:MAX_EXAMPLES]


def estimate_gain(features: Tensor, labels: Ints, weights: Floats, *, seed: int = 0) -> Gain | None:
    """Train the same small classifier with and without the weights, test both under them.

    `features` [N, d] are the examples themselves, one flat row each, in random order: one half
    is learned from, the other tested on. The dependence of the label on Z may be strong and yet
    nothing be lost with it, where the label can be seen just as well otherwise. None if so little
    has any weight that a half has none.
    """
    half = len(labels) // 2
    if not (weights[:half].any() and weights[half:].any()):
        return None
    x = features.float()
    shift, scale = x[:half].mean(0), x[:half].std(0)
    x = (x - shift) / torch.where(scale > 1e-6, scale, 1.0) / np.sqrt(x.shape[1])
    y = torch.from_numpy(labels)
    w = torch.from_numpy(weights)
    m = int(labels.max()) + 1
    right = {}
    with flush_denormals():
        for name, mass in (("plain", torch.ones_like(w)), ("balanced", w)):
            network = _train(x[:half], y[:half], mass[:half], m, seed)
            with torch.no_grad():
                right[name] = (network(x[half:]).argmax(1) == y[half:]).double()
    shares = w[half:] / w[half:].sum()
    balanced = {name: float((hit * shares).sum()) for name, hit in right.items()}
    difference = right["balanced"] - right["plain"]
    spread = (shares * (difference - (difference * shares).sum())).square().sum()
    return Gain(
        plain=float(right["plain"].mean()),
        plain_balanced=balanced["plain"],
        balanced=balanced["balanced"],
        error=float(spread.sqrt()),
        chance=float(torch.bincount(y[half:], weights=shares).max()),
    )


def _train(x: Tensor, y: Tensor, weights: Tensor, n_labels: int, seed: int) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Linear(x.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_labels)
        )
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=1e-1)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, STEPS)
    for _ in range(STEPS):
        rows = torch.multinomial(weights, BATCH, replacement=True, generator=generator)
        loss = nn.functional.cross_entropy(network(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
    return network
