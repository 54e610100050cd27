"""What a checkpoint saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Record:
    """The losses since the last checkpoint and the accuracies at this one.

    step : updates done
    loss : cross-entropy, and `losses` every reported term; means over the steps since the last
    train_accuracy, held_out_accuracy : of every environment by name, the test one included
    validation_accuracy : mean of the training environments' held-out accuracies
    balanced_validation_accuracy : the same with balanced weights; None without a balancer
    ood_accuracy : on the test environment's train part, the number DomainBed reports
    ood_held_out_accuracy : on its held-out part
    """

    step: int
    loss: float
    losses: Mapping[str, float]
    train_accuracy: Mapping[str, float]
    held_out_accuracy: Mapping[str, float]
    validation_accuracy: float
    balanced_validation_accuracy: float | None
    ood_accuracy: float | None
    ood_held_out_accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON line."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """A record from what `to_json` gave."""
        return cls(**values)
