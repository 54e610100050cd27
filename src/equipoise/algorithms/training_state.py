"""What a resumed run needs, as flat tensors and plain values: safetensors and JSON, no pickle."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass(frozen=True)
class TrainingState:
    """Tensors (for safetensors) and values (for JSON) that together restore a training."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with ``prefix``, without it."""
        found = self.tensors.items()
        return {k.removeprefix(prefix): v for k, v in found if k.startswith(prefix)}


def copy_tensor(tensor: Tensor) -> Tensor:
    """A copy that owns its memory, as safetensors asks for."""
    return tensor.detach().clone().contiguous()


def optimizer_tensors(optimizer: Optimizer, prefix: str) -> dict[str, Tensor]:
    """An optimiser's moments as ``prefix + "<parameter number>.<moment>"``."""
    return {
        f"{prefix}{number}.{key}": copy_tensor(value)
        for number, parameter in enumerate(_parameters(optimizer))
        for key, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, Tensor)
    }


def load_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put moments written by `optimizer_tensors` (prefix taken off) back in place."""
    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        if int(number) >= len(parameters):
            raise ValueError(
                f"the saved optimiser has a parameter number {number}, this one only "
                f"{len(parameters)} parameters; was the run started with another network?"
            )
        parameter = parameters[int(number)]
        optimizer.state[parameter][key] = value.to(parameter.device, copy=True)


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class WeightAverage:
    """θ̄_t = Σ_i d^(t−i) θ_i / Σ_i d^(t−i): a moving average that is unbiased from the start.

    Without the denominator the early average would hold mostly the initial weights. Call
    `update` after each training step and evaluate inside `applied`.

    >>> model = nn.Linear(1, 1)
    >>> average = WeightAverage(model, decay=0.9)
    >>> average.update()
    >>> with average.applied():
    ...     _ = model(torch.zeros(1, 1))
    """

    def __init__(self, model: nn.Module, *, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"decay must be at least 0 and below 1, got {decay}")
        self.model = model
        self.decay = decay
        self.updates = 0
        self.average = {name: copy_tensor(p) for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """Take the model's present weights into the average."""
        self.updates += 1
        weight = (1 - self.decay) / (1 - self.decay**self.updates)
        for name, parameter in self.model.named_parameters():
            self.average[name].lerp_(parameter, weight)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights inside and its own again on leaving."""
        own = {name: p.data for name, p in self.model.named_parameters()}
        try:
            for name, parameter in self.model.named_parameters():
                parameter.data = self.average[name]
            yield
        finally:
            for name, parameter in self.model.named_parameters():
                parameter.data = own[name]

    def training_state(self) -> TrainingState:
        """The average and its counter, saved like an algorithm's state."""
        tensors = {f"average.{name}": copy_tensor(value) for name, value in self.average.items()}
        return TrainingState(tensors, {"decay": self.decay, "updates": self.updates})

    def load_training_state(self, state: TrainingState) -> None:
        """Go on from a saved average of the same model."""
        saved = state.part("average.")
        if set(saved) != set(self.average):
            raise ValueError(
                "the saved average belongs to another model: parameters that differ: "
                f"{sorted(set(saved) ^ set(self.average))}"
            )
        for name, value in self.average.items():
            value.copy_(saved[name])
        self.updates = int(state.values["updates"])
