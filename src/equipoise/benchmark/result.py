"""What a run ended with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from equipoise.benchmark.records import Record
from equipoise.benchmark.settings import RunSettings


@dataclass(frozen=True)
class RunResult:
    """What a run ended with: all records, and the one each selection rule chose."""

    settings: RunSettings
    records: tuple[Record, ...]
    selected: dict[str, Record]

    def to_json(self) -> dict[str, Any]:
        """The content of `result.json`."""
        chosen = {
            name: {
                "step": record.step,
                "ood_accuracy": record.ood_accuracy,
                "ood_held_out_accuracy": record.ood_held_out_accuracy,
                "validation_accuracy": record.validation_accuracy,
                "balanced_validation_accuracy": record.balanced_validation_accuracy,
            }
            for name, record in self.selected.items()
        }
        return {"settings": self.settings.to_json(), "selections": chosen}
