"""Which checkpoint is *the* one: selection rules, each stating what data it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from equipoise.benchmark.records import Record


class Selection(ABC):
    """A rule that picks one record of a run, and scores it so that runs can be compared."""

    @abstractmethod
    def select(self, records: Sequence[Record]) -> Record:
        """The chosen record; of equals the first."""

    @abstractmethod
    def score(self, record: Record) -> float | None:
        """What a search over hyperparameters makes largest; None where the rule has no data."""


class TrainDomainSelection(Selection):
    """Best mean held-out accuracy of the training environments; needs no test data."""

    def select(self, records: Sequence[Record]) -> Record:
        return max(records, key=lambda record: record.validation_accuracy)

    def score(self, record: Record) -> float | None:
        return record.validation_accuracy


class BalancedSelection(Selection):
    """The same, weighted so that nothing is spurious; needs a fitted balancer, no test data."""

    def select(self, records: Sequence[Record]) -> Record:
        return max(records, key=lambda record: record.balanced_validation_accuracy or 0.0)

    def score(self, record: Record) -> float | None:
        return record.balanced_validation_accuracy


class TestDomainSelection(Selection):
    """Oracle: the last checkpoint, so that searches may compare runs on test data."""

    __test__ = False  # not a test class, whatever its name makes pytest think

    def select(self, records: Sequence[Record]) -> Record:
        return records[-1]

    def score(self, record: Record) -> float | None:
        return record.ood_held_out_accuracy


SELECTIONS: dict[str, type[Selection]] = {
    "train-domain": TrainDomainSelection,
    "balanced": BalancedSelection,
    "test-domain": TestDomainSelection,
}
