"""Which examples a step sees, and how they are fetched."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from equipoise.algorithms import Augmentation, Batch, get_algorithm, is_large_image
from equipoise.balance import (
    BalancedBatchSampler,
    Matches,
    WeightedBatchSampler,
    choose_n_matches,
    match_covariate,
)
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.data import RunData
from equipoise.benchmark.settings import RunSettings
from equipoise.data import EnvironmentDataset
from equipoise.diagnosis import cross_table

Ints = NDArray[np.int64]


class Batches(Protocol):
    """Index batches over the rows of `RunData.train`."""

    def draw_step(self, step: int) -> list[Ints]:
        """This rank's share of step `step` (from 0): one array for each training environment.

        Any step can be drawn without the ones before it, so a resumed run replays nothing. The
        array of an environment without a match is empty.
        """
        ...


class OwnBatches:
    """What batches without matches have: their size, their seed and this rank's share of them."""

    def __init__(
        self, environments: Ints, size: int, *, seed: int, num_replicas: int = 1, rank: int = 0
    ) -> None:
        if size < num_replicas:
            raise ValueError(
                f"{size} examples of an environment in a batch are too few for {num_replicas} "
                "processes; enlarge the batch or start fewer processes"
            )
        self.size, self.seed = size, seed
        self._share = slice(rank * size // num_replicas, (rank + 1) * size // num_replicas)
        self._members = [np.flatnonzero(environments == e) for e in np.unique(environments)]


class RandomBatches(OwnBatches):
    """Every environment's examples in random order, reshuffled whenever all have been given."""

    def __init__(self, environments: Ints, size: int, **share: int) -> None:
        super().__init__(environments, size, **share)
        self._shuffled: dict[tuple[int, int], Ints] = {}

    def draw_step(self, step: int) -> list[Ints]:
        return [self._take(e, step * self.size)[self._share] for e in range(len(self._members))]

    def _take(self, environment: int, start: int) -> Ints:
        """`size` places of the endless row of shuffles, from place `start` on."""
        n = len(self._members[environment])
        first, last = start // n, (start + self.size - 1) // n
        row = np.concatenate([self._shuffle(environment, k) for k in range(first, last + 1)])
        return row[start - first * n :][: self.size]

    def _shuffle(self, environment: int, epoch: int) -> Ints:
        if (environment, epoch) not in self._shuffled:
            generator = np.random.default_rng([self.seed, epoch, environment, 0x5AFF])
            shuffled = generator.permutation(self._members[environment])
            self._shuffled.pop((environment, epoch - 2), None)
            self._shuffled[environment, epoch] = shuffled
        return self._shuffled[environment, epoch]


class ClassBalancedBatches(OwnBatches):
    """A label drawn evenly among those an environment has, then an example of it."""

    def __init__(self, labels: Ints, environments: Ints, size: int, **share: int) -> None:
        super().__init__(environments, size, **share)
        self._parts = []
        for members in self._members:
            by_label = members[np.argsort(labels[members], kind="stable")]
            _, starts, counts = np.unique(labels[by_label], return_index=True, return_counts=True)
            self._parts.append((by_label, starts, counts))

    def draw_step(self, step: int) -> list[Ints]:
        generator = np.random.default_rng([self.seed, step, 0xC1A5])
        batches = []
        for rows, starts, counts in self._parts:
            label = generator.integers(len(starts), size=self.size)
            place = (generator.random(self.size) * counts[label]).astype(np.int64)
            batches.append(rows[starts[label] + place][self._share])
        return batches


def make_batches(
    settings: RunSettings,
    data: RunData,
    *,
    balancer: CausalBalancer | None = None,
    num_replicas: int = 1,
    rank: int = 0,
) -> Batches:
    """The batches that the settings ask for; "balanced" needs a fitted balancer."""
    train, seed = data.train, settings.seed
    # A label that only the test environment has cannot be matched: codes count the others, as
    # those of a balancer do.
    present, labels = np.unique(train.labels, return_inverse=True)
    n_labels = len(present)
    n_matches = choose_n_matches(n_labels, settings.n_matches)
    anchors = count_anchors(settings, n_labels, train.input_shape)
    size = anchors * (n_matches + 1)
    share = {"seed": seed, "num_replicas": num_replicas, "rank": rank}
    if settings.sampling == "random":
        return RandomBatches(train.environments, size, **share)
    if settings.sampling == "class-balanced":
        return ClassBalancedBatches(train.labels, train.environments, size, **share)
    if settings.sampling == "balanced" and balancer is not None and balancer.matches_ is None:
        weights = vars(balancer)["weights_"]  # of a method that weighs instead of matching
        return WeightedBatchSampler(
            weights, labels, train.environments, examples_per_environment=size, **share
        )
    return BalancedBatchSampler(
        labels,
        train.environments,
        _find_matches(settings, data, labels, balancer),
        anchors_per_environment=anchors,
        n_matches=n_matches,
        degree_of_balancing=settings.degree_of_balancing,
        **share,
    )


def _find_matches(
    settings: RunSettings, data: RunData, labels: Ints, balancer: CausalBalancer | None
) -> Matches:
    if settings.sampling == "balanced":
        if balancer is None:
            raise ValueError("sampling 'balanced' needs a fitted CausalBalancer")
        if len(balancer.matches_) != len(data.train):
            raise ValueError(
                f"the balancer was fitted on {len(balancer.matches_)} examples, but the train "
                f"parts of the training environments have {len(data.train)}: fit it on them"
            )
        found: Matches = balancer.matches_
        return found
    if data.train.covariate is None:
        raise ValueError(
            f"sampling 'oracle' needs the true covariate, which {settings.dataset} does not "
            "know; use 'balanced'"
        )
    return match_covariate(
        data.train.covariate,
        labels,
        data.train.environments,
        n_labels=int(labels.max()) + 1,
        generator=np.random.default_rng([settings.seed, 0x02AC]),
    )


def count_anchors(settings: RunSettings, n_labels: int, input_shape: Sequence[int] = ()) -> int:
    """Anchors of an environment in a batch: as set, else as many as the batch size holds.

    The batch size is the hyperparameter, else the algorithm's default for images of this size.
    Batches of every sampling hold anchors × (a + 1) examples, so that they compare.
    """
    if settings.anchors_per_environment is not None:
        return settings.anchors_per_environment
    hyperparameters = get_algorithm(settings.algorithm).choose_hyperparameters(
        large_images=is_large_image(input_shape), **settings.hyperparameters
    )
    return max(
        1,
        int(hyperparameters["batch_size"]) // (choose_n_matches(n_labels, settings.n_matches) + 1),
    )


StepExamples = tuple[Tensor, Tensor, list[int]]  # x and y of all environments, and their sizes


class StepDataset(Dataset[StepExamples]):
    """`dataset[index arrays]` is one step's examples, each environment's after the other."""

    def __init__(self, examples: EnvironmentDataset) -> None:
        self.examples = examples

    def __getitem__(self, parts: list[Ints]) -> StepExamples:
        rows = np.concatenate(parts)
        labels = torch.from_numpy(self.examples.labels[rows])
        return self.examples.fetch(rows), labels, [len(part) for part in parts]


def feed_steps(
    examples: EnvironmentDataset, batches: Batches, *, start: int, stop: int, num_workers: int = 0
) -> Iterator[StepExamples]:
    """The examples of steps `start` to `stop` − 1; with workers, fetched ahead of time.

    Workers serve datasets whose `__getitem__` is slow (files, photos). The order and content
    do not depend on their number.
    """
    dataset = StepDataset(examples)
    indices = (batches.draw_step(step) for step in range(start, stop))
    if num_workers == 0:
        yield from (dataset[parts] for parts in indices)
        return
    # The steps come from a generator, so nothing is asked of a sampler's length.
    yield from DataLoader(dataset, sampler=indices, batch_size=None, num_workers=num_workers)


def place_batches(
    examples: StepExamples, augment: Augmentation, seed: int, device: torch.device
) -> list[Batch]:
    """One augmented (x, y) for each environment on the device; `seed` is this step's own."""
    x, y, sizes = examples
    x = augment(x.to(device), torch.Generator().manual_seed(seed))
    return list(zip(torch.split(x, sizes), torch.split(y.to(device), sizes), strict=True))


def tabulate_epoch(
    settings: RunSettings, data: RunData, balancer: CausalBalancer
) -> NDArray[np.int64]:
    """Label × covariate over as many batches as make every example an anchor about once."""
    if data.train.covariate is None:
        raise ValueError(f"the true covariate of {settings.dataset} is not known")
    batches = make_batches(settings, data, balancer=balancer)
    size = len(data.train) // len(data.training_environments)
    anchors = count_anchors(settings, data.train.n_labels, data.train.input_shape)
    n_batches = max(1, size // anchors)
    drawn = np.concatenate([part for t in range(n_batches) for part in batches.draw_step(t)])
    n_values = int(data.train.covariate.max()) + 1
    return cross_table(
        data.train.labels[drawn], data.train.covariate[drawn], (data.train.n_labels, n_values)
    )
