"""Theorem 2.4: the Bayes classifier of a balanced distribution has the least worst-case risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from equipoise.balancer import CausalBalancer
from equipoise.theory.records import Record
from equipoise.theory.worlds import DiscreteWorld, GaussianWorld, World

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORLDS: dict[str, World] = {world.name: world for world in (DiscreteWorld(), GaussianWorld())}
BATCHES = {"random": "ERM", "balanced": "balanced", "default": "balanced, default settings"}
# Where x is discrete, u is taken for part of Z unless features are noisy. Gaussian tails have no
# overlap: there one label is left alone, and no match can balance it.
BALANCERS: dict[str, dict[str, Any]] = {
    "discrete": {"feature_noise": 1.0, "tolerance": 0.01},
    "Gaussian": {"common_support": 0.1},
}
ONE_COVARIATE: dict[str, Any] = {"latent_dim": 1, "hidden": [64, 64]}  # of every balancer
ANCHORS = 128  # of every environment in a batch


@dataclass(frozen=True)
class MinimaxCase:
    """A network to train: in which world, with which of `BATCHES`, from which balancer."""

    world: str
    batches: str
    balancer: dict[str, Any]
    n_examples: int  # of every training environment
    steps: int
    balancer_steps: int
    n_test: int  # of every environment of the grid
    seed: int

    def __str__(self) -> str:
        return f"{self.world}, {self.batches} batches, seed {self.seed}"


def train_network(case: MinimaxCase) -> Record:
    """Train a small network on the training environments and measure it all over the grid.

    Balanced batches are those of a `CausalBalancer` that sees x, y and the environment, never
    z; random ones have as many examples. Everything else is the same.
    """
    world = WORLDS[case.world]
    generator = np.random.default_rng([case.seed, 0x24])
    parts = [world.sample(e, case.n_examples, generator) for e in world.training]
    x = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    environments = np.repeat(np.arange(len(parts)), case.n_examples)
    if case.batches != "random":
        balancer = CausalBalancer(
            max_steps=case.balancer_steps, random_state=case.seed, **case.balancer
        ).fit(x, labels, environments)
        batches = _repeat(balancer.batch_sampler(ANCHORS))
    else:
        batches = _draw_at_random(len(labels), 2 * ANCHORS * len(parts), generator)
    network = _fit_network(torch.from_numpy(x).float(), torch.from_numpy(labels), batches, case)
    risks = [_measure(network, world, e, case.n_test, generator) for e in world.grid]
    return {"cross_entropy": [risk[0] for risk in risks], "error": [risk[1] for risk in risks]}


def _repeat(sampler: Iterable[list[int]]) -> Iterator[Ints]:
    while True:
        for batch in sampler:
            yield np.asarray(batch)


def _draw_at_random(n: int, size: int, generator: np.random.Generator) -> Iterator[Ints]:
    while True:
        yield generator.integers(n, size=size)


def _fit_network(x: Tensor, y: Tensor, batches: Iterator[Ints], case: MinimaxCase) -> nn.Module:
    """Two hidden layers; the weights of the second half of the steps are averaged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        network = nn.Sequential(
            nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
        )
    averaged = AveragedModel(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    for step in range(case.steps):
        rows = torch.from_numpy(next(batches))
        optimizer.zero_grad()
        cross_entropy(network(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= case.steps // 2:
            averaged.update_parameters(network)
    return averaged


@torch.no_grad()
def _measure(
    network: nn.Module, world: World, environment: float, n: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Cross-entropy and error on fresh examples of an environment."""
    x, labels = world.sample(environment, n, generator)
    y = torch.from_numpy(labels)
    logits = network(torch.from_numpy(x).float())
    error = (logits.argmax(dim=1) != y).double().mean()
    return float(cross_entropy(logits, y)), float(error)
