"""What batch samplers over environments share: epochs, resuming, several processes."""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from equipoise.checks import check_array, check_count, check_seed, show

Ints = NDArray[np.int64]


class EnvironmentBatchSampler(Sampler[list[int]]):
    """Batches with a part from every environment: epochs, resuming and several processes.

    `for batch in sampler` gives lists of example indices, as `DataLoader(batch_sampler=…)` wants
    them; `steps` gives the same with one array for each of `environment_codes`. Every batch is a
    function of seed, epoch and position. Each whole pass is followed by the next epoch.

    Of R processes each takes its share of every batch. `num_replicas` and `rank` are those of the
    process group when iteration begins, unless given. Under Accelerate, which deals whole batches
    out to processes, a sampler without `num_replicas` leaves the sharing to it.
    """

    _size_name = "anchors_per_environment"

    def __init__(
        self,
        labels: ArrayLike,
        environments: ArrayLike | None,
        per_environment: int,
        seed: int,
        num_replicas: int | None,
        rank: int | None,
    ) -> None:
        self.labels = _codes("labels", labels)
        codes = np.zeros_like(self.labels) if environments is None else environments
        self.environments = _codes("environments", codes)
        if len(self.labels) == 0:
            raise ValueError("there are no examples to draw from")
        if len(self.labels) != len(self.environments):
            raise ValueError(
                f"labels and environments must be aligned, but have {len(self.labels)} and "
                f"{len(self.environments)} entries"
            )
        if (num_replicas is None) != (rank is None):
            raise ValueError(
                f"give both num_replicas and rank, or neither: got {show(num_replicas)} and "
                f"{show(rank)}"
            )
        if num_replicas is not None:
            check_count("num_replicas", num_replicas)
            check_count("rank", rank, least=0)
        check_seed("seed", seed)
        check_count(self._size_name, per_environment, most=10**7)
        self.seed, self.num_replicas, self.rank = seed, num_replicas, rank
        self._per_environment = per_environment
        self._find_share()
        self.environment_codes: Ints = np.unique(self.environments)
        """Codes of the environments, in the order of a step's arrays."""
        self.epoch = 0
        self.position = 0  # batches of this epoch already given
        self._start = 0  # where the next pass begins; not 0 only after load_state_dict
        self._planned: tuple[int, int, list[Ints]] | None = None  # seed, epoch, plan

    @abstractmethod
    def _plan_epoch(self, members: Ints, needed: int, generator: np.random.Generator) -> Ints:
        """What one environment's batches of an epoch draw, in order: [needed]."""

    @abstractmethod
    def _fill_part(self, planned: Ints, share: slice, generator: np.random.Generator) -> Ints:
        """One environment's part of a batch, for the processes' `share` of what was planned."""

    def _set_members(self, usable: NDArray[np.bool_], *, lacking: str) -> None:
        """Keep the rows of every environment that can be drawn; warn if some have none."""
        codes = self.environment_codes
        self._members = [np.flatnonzero((self.environments == code) & usable) for code in codes]
        empty = [int(e) for e, rows in zip(codes, self._members, strict=True) if not len(rows)]
        if empty:
            warnings.warn(
                f"no example of the environments {empty} has {lacking}: they are left out of "
                "balanced batches",
                stacklevel=3,
            )

    def _count_used(self) -> int:
        return sum(len(rows) > 0 for rows in self._members)

    def __len__(self) -> int:
        largest = max(len(members) for members in self._members)
        return -(-largest // self._per_environment)

    def __iter__(self) -> Iterator[list[int]]:
        # Not a generator: what cannot work is refused when a loader asks for its iterator.
        return (np.concatenate(step).tolist() for step in self.steps())

    def steps(self) -> Iterator[list[Ints]]:
        """This epoch's batches: an index array, perhaps empty, for each of `environment_codes`."""
        return self._pass(self._find_share())

    def _pass(self, share: slice) -> Iterator[list[Ints]]:
        epoch, start, self._start = self.epoch, self._start, 0
        for position in range(start, len(self)):
            self.position = position + 1
            yield self._draw(epoch, position, share)
        if self.epoch == epoch:
            self.set_epoch(epoch + 1)

    def draw_step(self, step: int) -> list[Ints]:
        """The batch of any step of training, counted over epochs: one array per environment."""
        return self._draw(*divmod(step, len(self)), self._find_share())

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose batches come next; a place restored within this one is kept."""
        self._start = self._start if epoch == self.epoch else 0
        self.epoch, self.position = epoch, self._start

    @property
    def sampler(self) -> EnvironmentBatchSampler:
        """Itself: Lightning and Accelerate look for `batch_sampler.sampler.set_epoch`."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """Where the epoch stands; as consumed, if no loader worker runs ahead."""
        place = {"seed": self.seed, "epoch": self.epoch, "position": self.position}
        return {**place, "batches": len(self)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on after the batch at which `state_dict` was taken."""
        fields = ("seed", "epoch", "position")
        if not isinstance(state, dict) or not {*fields} <= state.keys():
            raise ValueError(f"state must be a state_dict of a sampler, got {show(state)}")
        seed, epoch, position = (
            check_count(f"{name} of the state", state[name], least=0) for name in fields
        )
        check_seed("seed of the state", seed)
        batches = check_count("batches of the state", state.get("batches", len(self)), least=0)
        if batches != len(self):
            raise ValueError(
                f"the state is of a sampler with {batches} batches an epoch, this one has "
                f"{len(self)}: build it with the same settings"
            )
        whole_epochs, position = divmod(position, len(self))
        self.seed, self.epoch = seed, epoch + whole_epochs
        self.position = self._start = position

    def _draw(self, epoch: int, position: int, share: slice) -> list[Ints]:
        """One batch; a function of seed, epoch and position, so that any can be redrawn."""
        size = self._per_environment
        generator = np.random.default_rng([self.seed, epoch, position, 2])
        here = slice(position * size, (position + 1) * size)
        return [
            self._fill_part(planned[here], share, generator) if len(planned) else planned
            for planned in self._plan(epoch)
        ]

    def _plan(self, epoch: int) -> list[Ints]:
        """The plan of every environment for an epoch; the last one made is remembered."""
        if self._planned is None or self._planned[:2] != (self.seed, epoch):
            needed, plan, place = len(self) * self._per_environment, [], 0
            for members in self._members:
                if len(members):
                    generator = np.random.default_rng([self.seed, epoch, place, 1])
                    plan.append(self._plan_epoch(members, needed, generator))
                    place += 1
                else:
                    plan.append(members)
            self._planned = (self.seed, epoch, plan)
        return self._planned[2]

    def _find_share(self) -> slice:
        """This process's share of what an environment's part of a batch is drawn from."""
        replicas, rank = self._find_replicas()
        size = self._per_environment
        if replicas < 1 or not 0 <= rank < replicas:
            raise ValueError(f"rank {rank} is not one of {replicas} replicas")
        if size < 1 or size % replicas:
            raise ValueError(
                f"{self._size_name}={size} must be a positive multiple of the {replicas} "
                "replicas, so that no group is split"
            )
        return slice(rank * size // replicas, (rank + 1) * size // replicas)

    def _find_replicas(self) -> tuple[int, int]:
        """Number of processes and rank; what would repeat or split batches is refused."""
        running = dist.is_available() and dist.is_initialized()
        world, here = (dist.get_world_size(), dist.get_rank()) if running else (1, 0)
        replicas, rank = self.num_replicas, self.rank
        if _accelerate_shares_batches():
            if replicas is not None and replicas > 1:
                raise ValueError(
                    f"these batches are shared out twice: by the sampler (num_replicas="
                    f"{replicas}) and by Accelerate. Leave num_replicas and rank out, or do not "
                    "pass this loader to accelerator.prepare"
                )
            return 1, 0
        if replicas is None or rank is None:
            return world, here
        if replicas == 1 and world > 1:
            raise ValueError(
                f"num_replicas=1, but {world} processes are running: all would train on the same "
                "batches. Leave num_replicas and rank out, or give each process its own rank"
            )
        if replicas == world > 1 and rank != here:
            raise ValueError(f"rank={rank} was given, but this process is rank {here} of {world}")
        return replicas, rank


def _accelerate_shares_batches() -> bool:
    """Whether Accelerate deals out whole batches, which only the callers' frames tell."""
    accelerate = sys.modules.get("accelerate.data_loader")
    frame = sys._getframe(1) if accelerate else None
    while accelerate and frame:
        if frame.f_globals.get("__name__") == accelerate.__name__:
            owner = frame.f_locals.get("self")
            if isinstance(owner, accelerate.BatchSamplerShard):
                if owner.split_batches:
                    raise _cut_by("split_batches")
                return bool(owner.num_processes > 1)
            if isinstance(owner, accelerate.DataLoaderDispatcher) and owner.state.num_processes > 1:
                raise _cut_by("dispatch_batches")
        frame = frame.f_back
    return False


def _cut_by(option: str) -> ValueError:
    return ValueError(
        f"Accelerate's {option}=True would cut balanced batches apart, anchors from their "
        f"matches: use {option}=False"
    )


def _codes(name: str, values: ArrayLike) -> Ints:
    array: NDArray[Any] = check_array(name, values)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(
            f"{name} must be a one-dimensional array of integer codes, got {array.dtype} "
            f"of shape {array.shape}"
        )
    return array.astype(np.int64)
