"""What a checkpoint saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

RECORDS_VERSION = 1


class OtherVersion(ValueError):
    """Written by a version of equipoise whose records have another form."""


def check_version(found: Any) -> None:
    """Raise `OtherVersion` unless records of this version can be read here."""
    if found != RECORDS_VERSION:
        raise OtherVersion(
            f"its records are of version {found!r}, this equipoise reads version "
            f"{RECORDS_VERSION}: read it with the equipoise that wrote it, or train again"
        )


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
        known = {field.name for field in fields(cls)}
        if "step" in values and known != set(values):  # else it is no record at all
            strange = sorted(known ^ set(values))
            raise OtherVersion(
                f"a record has other fields than those of this equipoise ({', '.join(strange)}): "
                "read it with the equipoise that wrote it, or train again"
            )
        return cls(**values)
