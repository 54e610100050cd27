"""Matches -> batches: Algorithm 1 of the paper as a batch sampler."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from equipoise.balance.matches import Matches, MatchSource

Ints = NDArray[np.int64]


class BalancedBatchSampler(Sampler[list[int]]):
    """B anchors from every environment, each with matches of `n_matches` other labels.

    A batch is a list of example indices: the environments one after the other, shuffled
    inside. An epoch makes every example of the largest environment an anchor once; smaller
    environments start over, reshuffled, and so does the largest to fill the last batch. Each
    whole pass is followed by the next epoch, with other draws; `set_epoch` chooses one.

    Parameters
    ----------
    labels, environments : integer codes of the examples that were matched
    matches : from `match_scores`, `match_covariate` or `CausalBalancer`
    anchors_per_environment : B, counted over all ranks
    n_matches : a of Algorithm 1, at most the number of labels − 1
    degree_of_balancing : β of Figure 4a; an anchor is balanced with this probability, else it
        is joined by examples of its own label and covariate (needs `matches.companions`)
    seed : with the epoch it fixes every draw
    num_replicas, rank : of R processes each takes B / R whole groups of every batch, so that
        the ranks together see what a single process would

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
        num_replicas: int = 1,
        rank: int = 0,
    ) -> None:
        self.labels = _codes("labels", labels)
        codes = np.zeros_like(self.labels) if environments is None else environments
        self.environments = _codes("environments", codes)
        self.matches = matches
        self.anchors_per_environment = anchors_per_environment
        self.n_matches = n_matches
        self.degree_of_balancing = degree_of_balancing
        self.seed, self.num_replicas, self.rank = seed, num_replicas, rank
        self._check()
        self._members = self._find_anchors()
        self.epoch = 0
        self.position = 0  # batches of this epoch already given
        self._start = 0  # where the next pass begins; not 0 only after load_state_dict
        self.skipped_matches = 0
        """Matches that could not be given because an anchor had too few other labels."""

    def _find_anchors(self) -> list[Ints]:
        """The rows of every environment that can be anchors.

        One without any match would only bring its own label, unbalanced; it is left out, unless
        the degree of balancing asks for unbalanced anchors anyway.
        """
        able = np.ones(len(self.labels), dtype=bool)
        if self.degree_of_balancing == 1.0:
            able = self.matches.matched
        if not able.any():
            raise ValueError(
                "no example has a match of another label: widen the caliper or the common "
                "support, or give environments with several labels"
            )
        codes = np.unique(self.environments)
        found = [(e, np.flatnonzero((self.environments == e) & able)) for e in codes]
        lonely = [int(e) for e, rows in found if not len(rows)]
        if lonely:
            warnings.warn(
                f"no example of the environments {lonely} has a match: they are left out of "
                "balanced batches",
                stacklevel=3,
            )
        return [rows for _, rows in found if len(rows)]

    def _check(self) -> None:
        if len(self.labels) == 0:
            raise ValueError("there are no examples to draw from")
        if len(self.labels) != len(self.environments):
            raise ValueError(
                f"labels and environments must be aligned, but have {len(self.labels)} and "
                f"{len(self.environments)} entries"
            )
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
            self._check_table(self.matches)
        n_labels = self.matches.has_match(np.zeros(1, dtype=np.int64)).shape[1]
        if not 1 <= self.n_matches <= n_labels - 1:
            raise ValueError(
                f"n_matches must be between 1 and the number of labels − 1 = {n_labels - 1}, "
                f"got {self.n_matches}"
            )
        if self.num_replicas < 1 or not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank {self.rank} is not one of {self.num_replicas} replicas")
        if self.anchors_per_environment < 1 or self.anchors_per_environment % self.num_replicas:
            raise ValueError(
                f"anchors_per_environment={self.anchors_per_environment} must be a positive "
                f"multiple of the {self.num_replicas} replicas, so that no group is split"
            )
        if not 0.0 <= self.degree_of_balancing <= 1.0:
            raise ValueError(f"degree_of_balancing must be in 0…1, got {self.degree_of_balancing}")
        if self.degree_of_balancing < 1.0 and self.matches.companions is None:
            raise ValueError(
                "degree_of_balancing < 1 needs matches with companions: use match_covariate"
            )

    def _check_table(self, matches: Matches) -> None:
        """The nearest must have the label it stands under and its anchor's environment."""
        anchors, labels = np.nonzero(matches.indices[:, :, 0] >= 0)
        nearest = matches.indices[anchors, labels, 0]
        same = self.environments[nearest] == self.environments[anchors]
        if not (same.all() and (self.labels[nearest] == labels).all()):
            raise ValueError("the matches were made with other labels or environments than these")

    # --- what loaders ask ----------------------------------------------------------------------

    def __len__(self) -> int:
        largest = max(len(members) for members in self._members)
        return -(-largest // self.anchors_per_environment)

    def __iter__(self) -> Iterator[list[int]]:
        epoch, start, self._start = self.epoch, self._start, 0
        plan = self._plan_anchors(epoch)
        for position in range(start, len(self)):
            self.position = position + 1
            yield self._draw_batch(plan, epoch, position).tolist()
        if self.epoch == epoch:
            self.set_epoch(epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next. Loaders that know epochs call this."""
        self.epoch, self.position, self._start = epoch, 0, 0

    @property
    def sampler(self) -> BalancedBatchSampler:
        """Itself: Lightning and Accelerate look for `batch_sampler.sampler.set_epoch`."""
        return self

    @property
    def batch_size(self) -> int:
        """Examples in a full batch of this rank."""
        groups = len(self._members) * self.anchors_per_environment // self.num_replicas
        return groups * (self.n_matches + 1)

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch stands; as consumed, if no loader worker runs ahead."""
        return {
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "batches": len(self),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch at which `state_dict` was taken."""
        if state.get("batches", len(self)) != len(self):
            raise ValueError(
                f"the state is of a sampler with {state['batches']} batches an epoch, this one "
                f"has {len(self)}: build it with the same settings"
            )
        whole_epochs, position = divmod(int(state["position"]), len(self))
        self.seed, self.epoch = int(state["seed"]), int(state["epoch"]) + whole_epochs
        self.position = self._start = position

    # --- Algorithm 1 ---------------------------------------------------------------------------

    def _plan_anchors(self, epoch: int) -> list[Ints]:
        """Every environment's anchors for the epoch, in order; smaller ones start over."""
        needed = len(self) * self.anchors_per_environment
        plan = []
        for environment, members in enumerate(self._members):
            generator = np.random.default_rng([self.seed, epoch, environment, 1])
            rounds = -(-needed // len(members))
            shuffles = [generator.permutation(members) for _ in range(rounds)]
            plan.append(np.concatenate(shuffles)[:needed])
        return plan

    def _draw_batch(self, plan: list[Ints], epoch: int, position: int) -> Ints:
        """One balanced batch; a function of (seed, epoch, position), so that any can be redrawn."""
        size = self.anchors_per_environment
        share = slice(
            self.rank * size // self.num_replicas, (self.rank + 1) * size // self.num_replicas
        )
        generator = np.random.default_rng([self.seed, epoch, position, 2])
        batch = []
        for anchors in plan:
            anchors = anchors[position * size : (position + 1) * size]
            # Drawn for all ranks, so that all draw alike; then each keeps its share.
            groups = self._leave_out_lonely(self.draw_groups(anchors, generator))[share]
            order = generator.permutation(size * (self.n_matches + 1))
            order = order[order < groups.size]
            chosen = groups.ravel()[order]
            batch.append(chosen[chosen >= 0])
            self.skipped_matches += int((groups[:, 1:] < 0).sum())
        return np.concatenate(batch)

    def _leave_out_lonely(self, groups: Ints) -> Ints:
        """Anchors [B, 1 + a] that a caliper left alone after all; lazy matches tell only now."""
        if self.degree_of_balancing < 1.0:
            return groups
        alone = np.asarray((groups[:, 1:] < 0).all(axis=1))
        if alone.all():
            raise ValueError("no anchor of this batch has a match within the caliper: widen it")
        return np.where(alone[:, None], -1, groups)

    def draw_groups(self, anchors: Ints, generator: np.random.Generator) -> Ints:
        """Anchors [B] with their matches: [B, 1 + a], −1 where a match was skipped."""
        has_match = self.matches.has_match(anchors)  # [B, m]
        # a other labels without replacement: the a smallest of random keys.
        keys = np.where(has_match, generator.random(has_match.shape), np.inf)
        labels = np.argsort(keys, axis=1)[:, : self.n_matches]  # [B, a]
        nearest = self.matches.lookup(anchors, labels)  # [B, a, k]
        n_near = (nearest >= 0).sum(axis=2)
        slot = (generator.random(labels.shape) * n_near).astype(np.int64)
        matches = np.take_along_axis(nearest, slot[..., None], axis=2)[..., 0]
        matches[~np.take_along_axis(has_match, labels, axis=1)] = -1
        if self.degree_of_balancing < 1.0:
            matches = self._keep_unbalanced(anchors, matches, generator)
        return np.concatenate([anchors[:, None], matches], axis=1)

    def _keep_unbalanced(
        self, anchors: Ints, matches: Ints, generator: np.random.Generator
    ) -> Ints:
        """Give some anchors companions of their own label instead of matches (Figure 4a)."""
        assert self.matches.companions is not None
        companions = self.matches.companions[anchors]  # [B, c]
        slot = generator.integers(companions.shape[1], size=matches.shape)
        unbalanced = generator.random(len(anchors)) >= self.degree_of_balancing
        return np.where(unbalanced[:, None], np.take_along_axis(companions, slot, axis=1), matches)

    def __repr__(self) -> str:
        return (
            f"BalancedBatchSampler({len(self._members)} environments × "
            f"{self.anchors_per_environment} anchors × (1 + {self.n_matches} matches), "
            f"{len(self)} batches an epoch)"
        )


def _codes(name: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must be a one-dimensional array of integer codes, got {array.dtype} "
            f"of shape {array.shape}"
        )
    return array.astype(np.int64)
