"""Accuracies of every environment's parts, in blocks, and the balanced validation accuracy."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.algorithms import Algorithm, HeldOut, Ranks
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.data import RunData

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Fixed: algorithms that look at the batch in `predict` would see other contexts otherwise.
BLOCK = 1024


@dataclass(frozen=True)
class Accuracies:
    """By position of the environment; `balanced` is None where there are no weights."""

    train: tuple[float, ...]
    held_out: tuple[float, ...]
    balanced: float | None


class Evaluator:
    """Knows which examples a checkpoint looks at, and their balanced weights."""

    def __init__(
        self,
        data: RunData,
        *,
        balancer: CausalBalancer | None = None,
        at_most: int | None = None,
        data_seed: int = 0,
        device: torch.device | str = "cpu",
        ranks: Ranks | None = None,
    ) -> None:
        self.data, self.device = data, torch.device(device)
        self.ranks = ranks or Ranks()
        self._sampled = [
            _take_some(rows, at_most if e in data.training_environments else None, [data_seed, e])
            for e, rows in enumerate(data.train_parts)
        ]
        self._weights = None if balancer is None else _balanced_weights(data, balancer)

    def evaluate(self, algorithm: Algorithm, *, complete: bool = True) -> Accuracies:
        """Accuracies with the algorithm's present weights; it is left in evaluation mode."""
        algorithm.eval()
        algorithm.before_evaluation(self._held_out())
        train_parts = self.data.train_parts if complete else self._sampled
        train = [self._is_right(algorithm, rows).mean() for rows in train_parts]
        held_out = [self._is_right(algorithm, rows) for rows in self.data.held_out_parts]
        balanced = None
        if self._weights is not None:
            means = [np.average(held_out[e], weights=w) for e, w in self._weights.items()]
            balanced = float(np.mean(means))
        held_out_means = tuple(float(right.mean()) for right in held_out)
        return Accuracies(tuple(map(float, train)), held_out_means, balanced)

    def _held_out(self) -> HeldOut:
        """The held-out parts of the training environments, for what is fitted to them."""
        examples = self.data.held_out
        others = examples.environments if examples.covariate is None else examples.covariate
        _, groups = np.unique(np.stack([examples.labels, others]), axis=1, return_inverse=True)

        def blocks() -> Iterator[Tensor]:
            for start in range(0, len(examples), BLOCK):
                rows = np.arange(start, min(start + BLOCK, len(examples)))
                yield examples.fetch(rows).to(self.device)

        labels, codes = (
            torch.from_numpy(np.ascontiguousarray(values)).long().to(self.device)
            for values in (examples.labels, groups.reshape(-1))
        )
        return HeldOut(labels, codes, blocks)

    @torch.no_grad()
    def _is_right(self, algorithm: Algorithm, rows: Ints) -> Floats:
        """1 for each example that is classified rightly, else 0; the ranks share the blocks."""
        right = torch.zeros(len(rows), dtype=torch.float64)
        starts = range(0, len(rows), BLOCK)
        for start in starts[self.ranks.rank :: self.ranks.world_size]:
            block = rows[start : start + BLOCK]
            x = self.data.dataset.fetch(block).to(self.device)
            found = algorithm.predict(x).argmax(dim=1).cpu()
            labels = torch.from_numpy(self.data.dataset.labels[block])
            right[start : start + BLOCK] = (found == labels).double()
        return self.ranks.add_up(right).numpy()


def _take_some(rows: Ints, at_most: int | None, seed: list[int]) -> Ints:
    if at_most is None or at_most >= len(rows):
        return rows
    return np.sort(np.random.default_rng([*seed, 0xE7A1]).permutation(rows)[:at_most])


def _balanced_weights(data: RunData, balancer: CausalBalancer) -> dict[int, Floats]:
    """Weights of the held-out parts; a label that the balancer never saw weighs nothing.

    Where nothing at all has a weight there is no accuracy to select by, and it is said at once,
    not after the training.
    """
    known = np.flatnonzero(np.isin(data.held_out.labels, balancer.classes_))
    weights = np.zeros(len(data.held_out))
    weights[known] = balancer.balanced_weights(data.show_balancer(data.held_out).subset(known))
    by_environment = {
        e: weights[data.held_out.environments == e] for e in data.training_environments
    }
    found = {e: w for e, w in by_environment.items() if w.sum() > 0}
    if not found:
        raise ValueError(
            f"none of the {len(data.held_out):,} held-out examples of the training environments "
            "has a match, so there is no balanced validation accuracy: loosen the balancer's "
            "common_support or caliper, hold out more examples, or leave the selection rule "
            "'balanced' out of the selections"
        )
    return found
