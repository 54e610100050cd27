"""ColoredMNIST with the environment column withheld: accuracy where the colour is reversed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F

from equipoise import CausalBalancer
from equipoise.balance import infer_environments
from equipoise.data import get_dataset


def run(quick: bool) -> None:
    data = get_dataset("ColoredMNIST")
    rows = np.flatnonzero(data.environments < 2)[: 12_000 if quick else None]
    held_out = np.flatnonzero(data.environments == 2)
    x, y, colour = data.fetch(rows), data.labels[rows], data.covariate[rows]
    test = data.fetch(held_out), data.labels[held_out]
    steps = 300 if quick else 1_500

    def report(name: str, batches: Iterator[np.ndarray]) -> None:
        shown = np.concatenate([next(batches) for _ in range(100)])
        agreement = np.mean(colour[shown] == y[shown])
        accuracy = _train(x, y, batches, test, steps)
        print(f"{name:34} colour = label {agreement:6.1%}   accuracy {accuracy:6.1%}", flush=True)

    report("random batches", _random(len(y)))
    choices = {"balanced, given environments": data.environments[rows]}
    for contrast in (0.6, 0.7, 0.8, 0.9):
        made = infer_environments(x, y, seed=0, contrast=contrast)
        choices[f"balanced, inferred (contrast {contrast})"] = made.codes
    for name, environments in choices.items():
        balancer = CausalBalancer(random_state=0).fit(x, y, environments)
        report(name, _endless(balancer.batch_sampler(anchors_per_environment=64)))


def _random(n: int) -> Iterator[np.ndarray]:
    generator = np.random.default_rng(0)
    while True:
        yield generator.integers(0, n, 256)


def _endless(sampler: object) -> Iterator[np.ndarray]:
    while True:
        for batch in sampler:  # type: ignore[attr-defined]
            yield np.asarray(batch)


def _train(
    x: torch.Tensor,
    y: np.ndarray,
    batches: Iterator[np.ndarray],
    test: tuple[torch.Tensor, np.ndarray],
    steps: int,
) -> float:
    """Accuracy of a perceptron with the same recipe for every kind of batch."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Flatten(),
        torch.nn.Linear(x[0].numel(), 256),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(256, 2),
    )
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    labels = torch.from_numpy(y)
    for _ in range(steps):
        rows = torch.from_numpy(next(batches))
        optimiser.zero_grad()
        F.cross_entropy(network(x[rows]), labels[rows]).backward()
        optimiser.step()
        schedule.step()
    network.eval()
    with torch.no_grad():
        return float((network(test[0]).argmax(dim=1).numpy() == test[1]).mean())
