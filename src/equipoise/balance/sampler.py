"""Matches or weights -> batches: Algorithm 1 of the paper as a batch sampler."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.balance.batches import EnvironmentBatchSampler, Ints
from equipoise.balance.large import MatchSource
from equipoise.balance.matches import Matches
from equipoise.balance.scores import as_array
from equipoise.checks import MOST, check_count, check_number

Floats = NDArray[np.float64]


def choose_n_matches(n_labels: int, n_matches: int | None = None) -> int:
    """The number of matches a: as given if the labels allow it, else m − 1 and at most 9.

    >>> choose_n_matches(3), choose_n_matches(65), choose_n_matches(65, 20)
    (2, 9, 20)
    """
    if n_matches is None:
        return min(n_labels - 1, 9)
    if not 1 <= check_count("n_matches", n_matches, least=-MOST) <= n_labels - 1:
        raise ValueError(
            f"n_matches must be between 1 and the number of labels − 1 = {n_labels - 1}, got "
            f"{n_matches}"
        )
    return int(n_matches)


class BalancedBatchSampler(EnvironmentBatchSampler):
    """Algorithm 1: B anchors from every environment, each with matches of `n_matches` labels.

    A batch has the environments one after the other, shuffled inside. An epoch makes every
    example of the largest environment an anchor once; smaller environments start over,
    reshuffled, and so does the largest to fill the last batch.

    Parameters
    ----------
    labels, environments : array of int [N]
        Codes of the examples that were matched; None for a single environment.
    matches : Matches or LazyMatches
        From `match_scores`, `match_covariate` or `CausalBalancer`.
    anchors_per_environment : int
        B, counted over all processes (under Accelerate: of each process).
    n_matches : int
        a of Algorithm 1, at most the number of labels − 1.
    degree_of_balancing : float
        β of Figure 4a: an anchor is balanced with this probability, else it is joined by
        examples of its own label and covariate (needs `matches.companions`).
    seed : int
        With the epoch it fixes every draw.
    num_replicas, rank : int, optional
        By default those of the process group. A process takes B / R whole groups.

    >>> from equipoise.balance import match_scores
    >>> labels = np.array([0, 1, 0, 1])
    >>> matches = match_scores(np.log(np.full((4, 2), 0.5)), labels)
    >>> sampler = BalancedBatchSampler(
    ...     labels, None, matches, anchors_per_environment=2, n_matches=1
    ... )
    >>> [len(batch) for batch in sampler]
    [4, 4]
    """

    def __init__(
        self,
        labels: ArrayLike,
        environments: ArrayLike | None,
        matches: MatchSource,
        *,
        anchors_per_environment: int,
        n_matches: int,
        degree_of_balancing: float = 1.0,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(labels, environments, anchors_per_environment, seed, num_replicas, rank)
        self.matches = matches
        self.anchors_per_environment = anchors_per_environment
        self.n_matches = n_matches
        self.degree_of_balancing = degree_of_balancing
        self._check()
        # An anchor without any match would only bring its own label, unbalanced.
        able = np.ones(len(self.labels), dtype=bool)
        if self.degree_of_balancing == 1.0:
            able = matches.matched
        if not able.any():
            raise ValueError(
                "no example has a match of another label: widen the caliper or the common "
                "support, or give environments with several labels"
            )
        self._set_members(able, lacking="a match")
        self.skipped_matches = 0
        """Matches that could not be given because an anchor had too few other labels."""

    def _check(self) -> None:
        if not hasattr(self.matches, "lookup"):
            raise TypeError(
                f"matches must come from match_scores or CausalBalancer, got "
                f"{type(self.matches).__name__}. A framework that rebuilds batch samplers by "
                "itself must be told not to (Lightning: use_distributed_sampler=False)"
            )
        if len(self.matches) != len(self.labels):
            raise ValueError(
                f"matches are of {len(self.matches)} examples, labels of {len(self.labels)}"
            )
        if isinstance(self.matches, Matches):
            # The nearest must have the label it stands under and its anchor's environment.
            anchors, labels = np.nonzero(self.matches.indices[:, :, 0] >= 0)
            nearest = self.matches.indices[anchors, labels, 0]
            same = self.environments[nearest] == self.environments[anchors]
            if not (same.all() and (self.labels[nearest] == labels).all()):
                raise ValueError(
                    "the matches were made with other labels or environments than these"
                )
        n_labels = self.matches.has_match(np.zeros(1, dtype=np.int64)).shape[1]
        self.n_matches = choose_n_matches(n_labels, self.n_matches)
        check_number("degree_of_balancing", self.degree_of_balancing)
        if not 0.0 <= self.degree_of_balancing <= 1.0:
            raise ValueError(f"degree_of_balancing must be in 0…1, got {self.degree_of_balancing}")
        if self.degree_of_balancing < 1.0 and self.matches.companions is None:
            raise ValueError(
                "degree_of_balancing < 1 needs matches with companions: use match_covariate"
            )

    def _plan_epoch(self, members: Ints, needed: int, generator: np.random.Generator) -> Ints:
        """Anchors of an epoch; a smaller environment starts over."""
        rounds = -(-needed // len(members))
        return np.concatenate([generator.permutation(members) for _ in range(rounds)])[:needed]

    def _fill_part(self, planned: Ints, share: slice, generator: np.random.Generator) -> Ints:
        # Drawn for all ranks, so that all draw alike; then each keeps its share.
        groups = self._leave_out_lonely(self.draw_groups(planned, generator))[share]
        order = generator.permutation(len(planned) * (self.n_matches + 1))
        chosen = groups.ravel()[order[order < groups.size]]
        self.skipped_matches += int((groups[:, 1:] < 0).sum())
        return chosen[chosen >= 0]

    def _leave_out_lonely(self, groups: Ints) -> Ints:
        """Anchors [B, 1 + a] that a caliper left alone after all; lazy matches tell only now."""
        if self.degree_of_balancing < 1.0:
            return groups
        alone = np.asarray((groups[:, 1:] < 0).all(axis=1))
        if alone.all():
            raise ValueError("no anchor of this batch has a match within the caliper: widen it")
        return np.where(alone[:, None], -1, groups)

    def draw_groups(self, anchors: Ints, generator: np.random.Generator) -> Ints:
        """Anchors [B] with their matches: [B, 1 + a], −1 where a match was skipped.

        Algorithm 1 takes the nearest example; with several near ones, one of them is drawn.
        """
        has_match = self.matches.has_match(anchors)  # [B, m]
        # a other labels without replacement: the a smallest of random keys.
        keys = np.where(has_match, generator.random(has_match.shape), np.inf)
        labels = np.argsort(keys, axis=1)[:, : self.n_matches]  # [B, a]
        nearest = self.matches.lookup(anchors, labels)  # [B, a, k]
        n_near = (nearest >= 0).sum(axis=2)
        slot = (generator.random(labels.shape) * n_near).astype(np.int64)
        matches = np.take_along_axis(nearest, slot[..., None], axis=2)[..., 0]
        matches[~np.take_along_axis(has_match, labels, axis=1)] = -1
        if self.degree_of_balancing < 1.0 and self.matches.companions is not None:
            # Some anchors have companions of their own label instead of matches (Figure 4a).
            companions = self.matches.companions[anchors]  # [B, c]
            slot = generator.integers(companions.shape[1], size=matches.shape)
            balanced = generator.random(len(anchors)) < self.degree_of_balancing
            own = np.take_along_axis(companions, slot, axis=1)
            matches = np.where(balanced[:, None], matches, own)
        return np.concatenate([anchors[:, None], matches], axis=1)

    def __repr__(self) -> str:
        return (
            f"BalancedBatchSampler({self._count_used()} environments × "
            f"{self.anchors_per_environment} anchors × (1 + {self.n_matches} matches), "
            f"{len(self)} batches an epoch)"
        )


class WeightedBatchSampler(EnvironmentBatchSampler):
    """B examples of every environment, drawn in proportion to balancing weights.

    Over an epoch an example appears as often as its weight says, rounded up or down; every batch
    has the labels in the shares that the weights give them, to within one example.

    Parameters
    ----------
    weights : array of float [N]
        Such as `CausalBalancer.weights_`; only proportions within an environment matter.
    labels, environments : array of int [N]
        Codes of the examples; None for a single environment.
    examples_per_environment : int
        B, counted over all processes (under Accelerate: of each process).
    seed : int
        With the epoch it fixes every draw.
    num_replicas, rank : int, optional
        By default those of the process group. A process takes B / R examples.

    >>> sampler = WeightedBatchSampler(
    ...     [1, 1, 2, 0], [0, 0, 1, 1], None, examples_per_environment=4
    ... )
    >>> [sorted(batch) for batch in sampler]
    [[0, 1, 2, 2]]
    """

    _size_name = "examples_per_environment"

    def __init__(
        self,
        weights: ArrayLike,
        labels: ArrayLike,
        environments: ArrayLike | None,
        *,
        examples_per_environment: int,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(labels, environments, examples_per_environment, seed, num_replicas, rank)
        given = as_array(weights)
        if given.dtype.kind not in "fiub":
            raise TypeError(f"weights must be real numbers, got dtype {given.dtype}")
        self.weights: Floats = given.astype(np.float64)
        self.examples_per_environment = examples_per_environment
        if self.weights.shape != self.labels.shape:
            raise ValueError(
                f"weights must be one for each of the {len(self.labels)} examples, got an array "
                f"of shape {self.weights.shape}"
            )
        if not np.isfinite(self.weights).all() or (self.weights < 0).any():
            raise ValueError("weights must be finite and not negative")
        if not self.weights.any():
            raise ValueError("all weights are 0: there is nothing to draw")
        self._set_members(self.weights > 0, lacking="a weight above 0")

    def _plan_epoch(self, members: Ints, needed: int, generator: np.random.Generator) -> Ints:
        """Systematic draws in label order, dealt to the batches in turn like cards."""
        shuffled = generator.permutation(members)
        rows = shuffled[np.argsort(self.labels[shuffled], kind="stable")]
        steps = np.cumsum(self.weights[rows])
        points = (np.arange(needed) + generator.random()) / needed * steps[-1]
        drawn = rows[np.searchsorted(steps, points, side="right").clip(max=len(rows) - 1)]
        # Mixed within a label, so that copies of one example spread over the batches.
        drawn = drawn[np.lexsort((generator.random(needed), self.labels[drawn]))]
        hands = drawn.reshape(self._per_environment, -1).T  # [batches, B]
        return np.asarray(hands[generator.permutation(len(hands))].ravel())

    def _fill_part(self, planned: Ints, share: slice, generator: np.random.Generator) -> Ints:
        return generator.permutation(planned)[share]

    def __repr__(self) -> str:
        return (
            f"WeightedBatchSampler({self._count_used()} environments × "
            f"{self.examples_per_environment} examples, {len(self)} batches an epoch)"
        )
