"""What an algorithm asks of the other processes that train the same model."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class Ranks:
    """One process: nothing to average, nothing to gather."""

    world_size, rank = 1, 0

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its mean over the ranks, in place."""

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all ranks, in the order of the ranks; gradients flow back."""
        return tensor


class DistributedRanks(Ranks):
    """The ranks of a `torch.distributed` process group.

    With the rows of all ranks gathered, every rank computes the loss of the global batch, so
    penalties on batch statistics equal those of a single process. Each rank's gradient then
    holds its own rows' part, scaled by the number of ranks, and their mean is the gradient.
    """

    def __init__(self, group: "dist.ProcessGroup | None" = None) -> None:
        self.group = group
        self.world_size = dist.get_world_size(group)
        self.rank = dist.get_rank(group)

    def average(self, tensors: Sequence[Tensor]) -> None:
        by_kind: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            by_kind.setdefault((tensor.dtype, tensor.device), []).append(tensor)
        for kind in by_kind.values():
            flat = torch.cat([tensor.detach().reshape(-1) for tensor in kind])
            dist.all_reduce(flat, group=self.group)
            flat /= self.world_size
            for tensor, mean in zip(
                kind, torch.split(flat, [t.numel() for t in kind]), strict=True
            ):
                tensor.detach().copy_(mean.view_as(tensor))

    def gather(self, tensor: Tensor) -> Tensor:
        return _Gather.apply(tensor, self.group)  # type: ignore[no-any-return, no-untyped-call]


class _Gather(torch.autograd.Function):
    """Concatenate the ranks' rows, which may differ in number."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        world_size, rank = dist.get_world_size(group), dist.get_rank(group)
        sizes = [torch.zeros(1, dtype=torch.long, device=tensor.device) for _ in range(world_size)]
        dist.all_gather(sizes, torch.tensor([len(tensor)], device=tensor.device), group=group)
        lengths = [int(size) for size in sizes]
        padded = tensor.new_zeros((max(lengths), *tensor.shape[1:]))
        padded[: len(tensor)] = tensor
        rows = [torch.empty_like(padded) for _ in range(world_size)]
        dist.all_gather(rows, padded, group=group)
        ctx.own = slice(sum(lengths[:rank]), sum(lengths[: rank + 1]))
        ctx.world_size = world_size
        return torch.cat([row[:length] for row, length in zip(rows, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        # Every rank holds the same loss, hence the same gradient: own rows, no communication.
        return gradients[0][ctx.own] * ctx.world_size, None
