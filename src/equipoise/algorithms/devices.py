"""Where a model is trained: on which device, and with which other processes."""

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")

# A rank may wait for another that fits a balancer.
PATIENCE = timedelta(hours=12)


class Ranks:
    """One process: nothing to average, gather or share."""

    world_size, rank = 1, 0

    @property
    def is_first(self) -> bool:
        """Only the first rank writes files and shows progress."""
        return self.rank == 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the ranks, in place."""

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all ranks, in the order of the ranks; gradients flow back."""
        return tensor

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        return tensor

    def share(self, value: T) -> T:
        """What the first rank has, on every rank."""
        return value

    def meet(self) -> None:
        """Wait until every rank is here."""


class DistributedRanks(Ranks):
    """The ranks of the default process group of `torch.distributed`.

    With the rows of all ranks gathered, every rank computes the loss of the global batch, so
    penalties on batch statistics equal those of a single process. Each rank's gradient then
    holds its own rows' part, scaled by the number of ranks, and their mean is the gradient.
    """

    def __init__(self) -> None:
        self.world_size, self.rank = dist.get_world_size(), dist.get_rank()

    def average(self, tensors: Sequence[Tensor]) -> None:
        by_kind: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            by_kind.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for kind in by_kind.values():
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in kind])
            dist.all_reduce(flat)
            flat /= self.world_size
            for tensor, mean in zip(
                kind, torch.split(flat, [t.numel() for t in kind]), strict=True
            ):
                tensor.detach().copy_(mean.view_as(tensor))

    def gather(self, tensor: Tensor) -> Tensor:
        return _Gather.apply(tensor)  # type: ignore[no-any-return, no-untyped-call]

    def add_up(self, tensor: Tensor) -> Tensor:
        on_device = tensor.to(self._device)
        dist.all_reduce(on_device)
        return tensor.copy_(on_device)

    def share(self, value: T) -> T:
        box = [value]
        dist.broadcast_object_list(box, device=self._device)
        return box[0]

    def meet(self) -> None:
        dist.barrier()

    @property
    def _device(self) -> torch.device:
        """Where this group's messages must be."""
        on_gpu = dist.get_backend() == "nccl"
        return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


class _Gather(torch.autograd.Function):
    """Concatenate the ranks' rows, which may differ in number."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        world_size, rank = dist.get_world_size(), dist.get_rank()
        sizes = [torch.zeros(1, dtype=torch.long, device=tensor.device) for _ in range(world_size)]
        dist.all_gather(sizes, torch.tensor([len(tensor)], device=tensor.device))
        lengths = [int(size) for size in sizes]
        padded = tensor.new_zeros((max(lengths), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        rows = [torch.empty_like(padded) for _ in range(world_size)]
        dist.all_gather(rows, padded)
        ctx.own = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
        ctx.world_size = world_size
        return torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        # Every rank holds the same loss, hence the same gradient: own rows, no communication.
        return gradients[0][ctx.own] * ctx.world_size


def join_ranks(device: str = "cpu") -> Ranks:
    """Meet the other processes of a `torchrun`; without one, this process alone.

    The group stays until the process ends: a second one in the same process would hang, and
    several runs after one another may share it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Ranks()
    if not dist.is_initialized():
        backend = "nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE)
        atexit.register(dist.destroy_process_group)
    return DistributedRanks()


def choose_device(name: str) -> str:
    """A device that is there: "auto" takes a GPU if any; under torchrun each rank its own.

    >>> choose_device("cpu")
    'cpu'
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; use cpu, cuda, cuda:1, mps or auto") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device {name!r} was asked for, but torch finds no GPU here")
        if device.index is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        # Equal bits on every run are worth more than the fastest kernel.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device 'mps' was asked for, but torch finds none here")
    return str(device)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators inside, put them back on leaving."""
    generators = [torch.default_generator]
    if device is not None and device.type == "cuda":
        generators.append(torch.cuda.default_generators[device.index or 0])
    states = [generator.get_state() for generator in generators]
    try:
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)


@contextmanager
def in_full_precision(*tensors: Tensor) -> Iterator[list[Tensor]]:
    """These tensors in single precision at least, and no mixed precision inside."""
    with torch.autocast(tensors[0].device.type, enabled=False):
        yield [tensor.to(torch.promote_types(tensor.dtype, torch.float32)) for tensor in tensors]
