"""Tiny environments on which every algorithm of the room is tried."""

import torch
from torch import Tensor, nn

from equipoise.algorithms import Algorithm, get_algorithm

N_LABELS = 3
SHAPE = (6,)


def tiny_batches(
    sizes: tuple[int, ...] = (9, 7),
    *,
    shape: tuple[int, ...] = SHAPE,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> list[tuple[Tensor, Tensor]]:
    """One (x, y) per size; the label moves the mean of x, the environment its last entry."""
    generator = torch.Generator().manual_seed(seed)
    centres = 2 * torch.randn(N_LABELS, *shape, generator=generator, dtype=dtype)
    batches = []
    for environment, size in enumerate(sizes):
        y = torch.randint(N_LABELS, (size,), generator=generator)
        x = centres[y] + torch.randn(size, *shape, generator=generator, dtype=dtype)
        x[..., -1] += environment
        batches.append((x, y))
    return batches


class TinyNet(nn.Module):
    """Two layers with a smooth non-linearity, so that finite differences are exact enough."""

    def __init__(self, n_inputs: int = 6, n_outputs: int = 5, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = nn.Linear(n_inputs, n_outputs)
        self.dropout = nn.Dropout(dropout)
        self.n_outputs = n_outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(torch.tanh(self.layer(x.flatten(1))))


def tiny_net(shape: tuple[int, ...]) -> TinyNet:
    return TinyNet(n_inputs=int(torch.tensor(shape).prod()))


def tiny_net_with_dropout(shape: tuple[int, ...]) -> TinyNet:
    return TinyNet(n_inputs=int(torch.tensor(shape).prod()), dropout=0.3)


def make(name: str, n_environments: int = 2, **keywords: object) -> Algorithm:
    """The algorithm on `SHAPE` with the tiny network."""
    keywords = {"featurizer": tiny_net, "seed": 1, **keywords}
    return get_algorithm(name)(SHAPE, N_LABELS, n_environments, **keywords)


def make_double(name: str, n_environments: int = 2, **keywords: object) -> Algorithm:
    """The same in float64."""
    return make(name, n_environments, **keywords).double()
