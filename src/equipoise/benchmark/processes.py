"""The processes that train one model together, as `torchrun` starts them."""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from equipoise.algorithms import DistributedRanks, Ranks

T = TypeVar("T")

# A rank may wait for another that fits a balancer.
PATIENCE = timedelta(hours=12)


@dataclass(frozen=True)
class Processes:
    """This process's rank among `world_size`; on its own by default."""

    rank: int = 0
    world_size: int = 1

    @property
    def is_first(self) -> bool:
        """Only the first writes files and shows progress."""
        return self.rank == 0

    def make_ranks(self) -> Ranks:
        """What an algorithm needs to average gradients."""
        return Ranks() if self.world_size == 1 else DistributedRanks()

    def add_up(self, tensor: Tensor) -> Tensor:
        """The sum over all ranks, in place."""
        if self.world_size > 1:
            on_device = tensor.to(_communication_device())
            dist.all_reduce(on_device)
            tensor.copy_(on_device)
        return tensor

    def share(self, value: T) -> T:
        """What the first rank has, on every rank."""
        if self.world_size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, device=_communication_device())
        return box[0]


def join_processes(device: str = "cpu") -> Processes:
    """Meet the other processes of a `torchrun`; without one, this process alone.

    The group stays until the process ends: a second one in the same process would hang, and
    several runs after one another may share it.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return Processes()
    if not dist.is_initialized():
        backend = "nccl" if device.startswith("cuda") else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE)
        atexit.register(dist.destroy_process_group)
    return Processes(dist.get_rank(), dist.get_world_size())


def _communication_device() -> torch.device:
    on_gpu = dist.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
