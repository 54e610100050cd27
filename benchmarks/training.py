"""A step of the training loop against a bare loop on a batch in memory, and what drawing costs.

One thread, CPU time, the two loops taking turns; ColoredMNIST10, balanced batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms import make_featurizer
from equipoise.benchmark import RunSettings, split_for_run
from equipoise.benchmark.batches import StepDataset
from equipoise.benchmark.training import Training, build_algorithm
from equipoise.data import EnvironmentDataset, get_dataset


@dataclass(frozen=True)
class Case:
    """A network, the anchors of an environment (each with nine matches) and steps to time."""

    featurizer: str
    anchors: int
    steps: int


CASES = (Case("small-cnn", 32, 60), Case("mnist-cnn", 8, 12))
QUICK_CASES = (Case("small-cnn", 16, 20), Case("mnist-cnn", 2, 4))


def run(quick: bool) -> None:
    """Print, for each network, loop throughput relative to a bare loop and the drawing's share."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    dataset = get_dataset("ColoredMNIST10")
    print("network    images  bare ms  loop ms  throughput  drawing ms  share of a step")
    for case in QUICK_CASES if quick else CASES:
        training = make_training(case, dataset)
        steps = training.run()
        bare = make_bare_step(case, training)
        for _ in range(2):
            next(steps)
            bare()
        bare_time, loop_time = time_in_turns(bare, partial(next, steps), case.steps)
        draw_time = time_drawing(training, case.steps)
        n_images = 2 * case.anchors * 10
        print(
            f"{case.featurizer:<10} {n_images:>6} {bare_time:>8.1f} {loop_time:>8.1f} "
            f"{bare_time / loop_time:>11.2f} {draw_time:>11.2f} {draw_time / loop_time:>16.1%}"
        )


def make_training(case: Case, dataset: EnvironmentDataset) -> Training:
    """ERM with the oracle's matches: drawn and fetched like learned ones, found at once."""
    settings = RunSettings(
        dataset="ColoredMNIST10",
        algorithm="ERM",
        sampling="oracle",
        test_environment=2,
        steps=10_000,
        checkpoint_every=10_000,
        featurizer=case.featurizer,
        anchors_per_environment=case.anchors,
        selections=("train-domain",),
    )
    data = split_for_run(settings, dataset)
    return Training(settings, data, build_algorithm(settings, data))


def make_bare_step(case: Case, training: Training) -> Callable[[], None]:
    """What a user would write by hand around the same network, optimiser and batch."""
    data = training.data.train
    x, y, _ = StepDataset(data)[training.batches.draw_step(0)]
    featurizer = make_featurizer(data.input_shape, case.featurizer)
    model = nn.Sequential(featurizer, nn.Linear(128, data.n_labels))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def step() -> None:
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


def time_in_turns(
    first: Callable[[], object], second: Callable[[], object], n: int
) -> tuple[float, float]:
    """Median CPU milliseconds of both, called alternately so that both meet the same machine."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(n):
        for action, spent in zip((first, second), times, strict=True):
            started = time.process_time()
            action()
            spent.append(time.process_time() - started)
    return 1e3 * float(np.median(times[0])), 1e3 * float(np.median(times[1]))


def time_drawing(training: Training, n: int) -> float:
    """Median CPU milliseconds to draw a balanced batch: indices and pixels."""
    examples = StepDataset(training.data.train)
    spent = []
    for step in range(n):
        started = time.process_time()
        examples[training.batches.draw_step(100 + step)]
        spent.append(time.process_time() - started)
    return 1e3 * float(np.median(spent))


if __name__ == "__main__":
    run(quick=False)
