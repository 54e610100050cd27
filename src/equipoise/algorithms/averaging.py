"""An exponential moving average of a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from equipoise.algorithms.training_state import TrainingState, copy_tensor


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
        saved = {name.removeprefix("average.") for name in state.tensors}
        if saved != set(self.average):
            raise ValueError(
                "the saved average belongs to another model: parameters that differ: "
                f"{sorted(saved ^ set(self.average))}"
            )
        for name, value in self.average.items():
            value.copy_(state.tensors[f"average.{name}"])
        self.updates = int(state.values["updates"])
