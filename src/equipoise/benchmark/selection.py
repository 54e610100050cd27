"""Which run and checkpoint is *the* one: selection rules, each stating what data it needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from equipoise.benchmark.records import Record
from equipoise.benchmark.trials import FinishedRun, Judgement, Trial


class Selection(ABC):
    """A rule that chooses a checkpoint of a trial and scores it among other trials."""

    @abstractmethod
    def judge(self, trial: Trial) -> Judgement | None:
        """The chosen record and its score; None if the trial lacks what the rule needs."""


class CheckpointSelection(Selection):
    """A rule for which the records of the run itself are enough."""

    @abstractmethod
    def select(self, records: Sequence[Record]) -> Record:
        """The chosen record; of equals the first."""

    @abstractmethod
    def score(self, record: Record) -> float | None:
        """What a search over hyperparameters makes largest; None where the rule has no data."""

    def judge(self, trial: Trial) -> Judgement | None:
        records = [record for record in trial.run.records if _is_number(self.score(record))]
        if not records:
            return None
        record = self.select(records)
        score = self.score(record)
        return None if score is None else Judgement(record, score)


class TrainDomainSelection(CheckpointSelection):
    """Best mean held-out accuracy of the training environments; needs no test data."""

    def select(self, records: Sequence[Record]) -> Record:
        return max(records, key=lambda record: record.validation_accuracy)

    def score(self, record: Record) -> float | None:
        return record.validation_accuracy


class BalancedSelection(CheckpointSelection):
    """The same, weighted so that nothing is spurious; needs a fitted balancer, no test data."""

    def select(self, records: Sequence[Record]) -> Record:
        usable = [record for record in records if _is_number(self.score(record))]
        if not usable:
            raise ValueError(
                "no record has a balanced validation accuracy to select by: the run needs a "
                "balancer that leaves some held-out example a match"
            )
        return max(usable, key=lambda record: record.balanced_validation_accuracy or 0.0)

    def score(self, record: Record) -> float | None:
        return record.balanced_validation_accuracy


class TestDomainSelection(CheckpointSelection):
    """Oracle: the last checkpoint, so that searches may compare runs on test data."""

    __test__ = False  # not a test class, whatever its name makes pytest think

    def select(self, records: Sequence[Record]) -> Record:
        return records[-1]

    def score(self, record: Record) -> float | None:
        return record.ood_held_out_accuracy


class LeaveOneDomainOutSelection(Selection):
    """Best mean accuracy on every other environment, each left out of training in its turn."""

    def judge(self, trial: Trial) -> Judgement | None:
        test = trial.run.test_environment
        others = [name for name in trial.run.records[0].train_accuracy if name != test]
        curves = []
        for other in others:
            found = [run for run in trial.companions if run.leaves_out(other)]
            if not found:
                return None
            curves.append(_accuracy_on(other, found[0]))
        judged = [
            Judgement(record, sum(curve[record.step] for curve in curves) / len(curves))
            for record in trial.run.records
            if all(record.step in curve for curve in curves)
        ]
        return max(judged, key=lambda each: each.score) if judged else None


def _is_number(score: float | None) -> bool:
    return score is not None and not math.isnan(score)


def _accuracy_on(environment: str, run: FinishedRun) -> dict[int, float]:
    """Of a run that did not train on it, by step."""
    return {record.step: record.train_accuracy[environment] for record in run.records}


SELECTIONS: dict[str, type[CheckpointSelection]] = {
    "train-domain": TrainDomainSelection,
    "balanced": BalancedSelection,
    "test-domain": TestDomainSelection,
}
"""The rules a run can apply to itself, and keep weights for."""

RULES: dict[str, type[Selection]] = {
    **SELECTIONS,
    "leave-one-domain-out": LeaveOneDomainOutSelection,
}
"""All rules; the last needs several runs."""
