"""Index batches -> examples: fetched here, or ahead of time by the workers of a DataLoader."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from equipoise.algorithms import Augmentation, Batch
from equipoise.benchmark.sampling import Batches
from equipoise.data import EnvironmentDataset

Ints = NDArray[np.int64]
Examples = tuple[Tensor, Tensor, list[int]]  # x and y of all environments, and their sizes


class StepDataset(Dataset[Examples]):
    """`dataset[index arrays]` is one step's examples, each environment's after the other."""

    def __init__(self, examples: EnvironmentDataset) -> None:
        self.examples = examples

    def __getitem__(self, parts: list[Ints]) -> Examples:
        rows = np.concatenate(parts)
        labels = torch.from_numpy(self.examples.labels[rows])
        return self.examples.fetch(rows), labels, [len(part) for part in parts]


def feed_steps(
    examples: EnvironmentDataset, batches: Batches, *, start: int, stop: int, num_workers: int = 0
) -> Iterator[Examples]:
    """The examples of steps `start` to `stop` − 1; with workers, fetched ahead of time.

    Workers serve datasets whose `__getitem__` is slow (files, photos). The order and content
    do not depend on their number.
    """
    dataset = StepDataset(examples)
    indices = (batches.draw(step) for step in range(start, stop))
    if num_workers == 0:
        yield from (dataset[parts] for parts in indices)
        return
    # The steps come from a generator, so nothing is asked of a sampler's length.
    yield from DataLoader(dataset, sampler=indices, batch_size=None, num_workers=num_workers)


def place_batches(
    examples: Examples, augment: Augmentation | None, seed: int, device: torch.device
) -> list[Batch]:
    """One augmented (x, y) for each environment on the device; `seed` is this step's own."""
    x, y, sizes = examples
    x, y = x.to(device), y.to(device)
    if augment is not None:
        x = augment(x, torch.Generator().manual_seed(seed))
    return list(zip(torch.split(x, sizes), torch.split(y, sizes), strict=True))
