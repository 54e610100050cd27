"""What checkpoints saw, and which is *the* one: selection rules and the data each needs."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from equipoise.checks import check_choice
from equipoise.paper import find_accuracy

METRIC = "balancer.metric"  # a setting that the paper varies as well
RECORDS_VERSION = 2


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


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run of ours or of DomainBed: what it was and its records.

    `settings` are those beyond the named ones; runs that differ in them do not compare.
    """

    dataset: str
    algorithm: str
    sampling: str
    test_environment: str
    validation_environment: str | None
    seed: int
    hyperparameters: Mapping[str, Any]
    records: tuple[Record, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def leaves_out(self, environment: str) -> bool:
        """Whether this environment was not trained on."""
        return environment in (self.test_environment, self.validation_environment)

    def flatten(self) -> dict[str, Any]:
        """Hyperparameters and further settings by name."""
        return flatten_settings({"hyperparameters": self.hyperparameters, **self.settings})


@dataclass(frozen=True)
class Trial:
    """A run, and those with the same hyperparameters that leave out one environment more."""

    run: FinishedRun
    companions: tuple[FinishedRun, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """The record a rule chose of a trial, and its score among other trials."""

    record: Record
    score: float


class Selection(ABC):
    """A rule that chooses a checkpoint of a trial and scores it among other trials."""

    @abstractmethod
    def judge(self, trial: Trial) -> Judgement | None:
        """The chosen record and its score; None if the trial lacks what the rule needs."""


class CheckpointSelection(Selection):
    """A rule for which the records of the run itself are enough."""

    def select(self, records: Sequence[Record]) -> Record:
        """The record of the highest score; of equals the first."""
        scored = [(score, r) for r in records if _is_number(score := self.score(r))]
        if not scored:
            raise ValueError(
                "no record has an accuracy for this rule to select by; 'balanced' needs a balancer "
                "that leaves some held-out example a match"
            )
        return max(scored, key=lambda each: each[0] or 0.0)[1]

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

    def score(self, record: Record) -> float | None:
        return record.validation_accuracy


class BalancedSelection(CheckpointSelection):
    """The same, weighted so that nothing is spurious; needs a fitted balancer, no test data."""

    def score(self, record: Record) -> float | None:
        return record.balanced_validation_accuracy


class TestDomainSelection(CheckpointSelection):
    """Oracle: the largest step, so that searches may compare runs on test data."""

    __test__ = False  # not a test class, whatever its name makes pytest think

    def select(self, records: Sequence[Record]) -> Record:
        return max(records, key=lambda record: record.step)

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


@dataclass(frozen=True)
class SelectedRun:
    """The number of one cell, seed and selection rule: `ood_accuracy`, a share from 0 to 1."""

    dataset: str
    algorithm: str
    sampling: str
    test_environment: str
    seed: int
    selection: str
    ood_accuracy: float
    step: int
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    by: dict[str, Any] = field(default_factory=dict)  # settings that tell the cells apart
    run: str = ""

    @property
    def paper_accuracy(self) -> float | None:
        """The paper's number for this cell, in percent."""
        if set(self.by) - {METRIC}:
            return None
        found = find_accuracy(
            dataset=self.dataset,
            algorithm=self.algorithm,
            sampling=self.sampling,
            test_environment=self.test_environment,
            selection=self.selection,
            metric=str(self.by.get(METRIC, "")),
        )
        return None if found is None else found.accuracy

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)


def select_runs(
    runs: Iterable[FinishedRun], rules: Sequence[str], *, by: Sequence[str] = ()
) -> list[SelectedRun]:
    """For every cell, seed and rule the best run of the search, at its chosen checkpoint.

    A cell is a dataset, an algorithm, a sampling, a test environment and the values of the
    settings named in `by`. Its runs may differ in their hyperparameters, among which the rule
    chooses, and in nothing else.
    """
    for name in rules:
        check_choice("selection rule", name, RULES)
    found = list(runs)
    check_comparable(found, by)
    single: dict[tuple, list[FinishedRun]] = defaultdict(list)
    paired: dict[tuple, list[FinishedRun]] = defaultdict(list)
    for run in found:
        own = (run.dataset, run.algorithm, run.sampling, run.seed, _values(run, by))
        if run.validation_environment is None:
            single[*own, run.test_environment].append(run)
        else:
            paired[*own, _freeze(run.hyperparameters)].append(run)
    selected = []
    for key, group in single.items():
        *shared, test = key
        trials = [
            Trial(
                run,
                tuple(
                    other
                    for other in paired[*shared, _freeze(run.hyperparameters)]
                    if other.leaves_out(test)
                ),
            )
            for run in group
        ]
        for name in rules:
            best = _choose(RULES[name](), trials)
            if best is not None:
                selected.append(_describe_selected(name, *best, by))
    return selected


def _choose(rule: Selection, trials: Sequence[Trial]) -> tuple[FinishedRun, Judgement] | None:
    """The trial of the highest score, of equals the first."""
    judged = [(trial.run, found) for trial in trials if (found := rule.judge(trial)) is not None]
    return max(judged, key=lambda each: each[1].score) if judged else None


def _describe_selected(
    rule: str, run: FinishedRun, judgement: Judgement, by: Sequence[str]
) -> SelectedRun:
    accuracy = judgement.record.ood_accuracy
    assert accuracy is not None  # there is a test environment
    return SelectedRun(
        dataset=run.dataset,
        algorithm=run.algorithm,
        sampling=run.sampling,
        test_environment=run.test_environment,
        seed=run.seed,
        selection=rule,
        ood_accuracy=accuracy,
        step=judgement.record.step,
        hyperparameters=dict(run.hyperparameters),
        by={name: run.flatten().get(name) for name in by},
        run=run.name,
    )


def check_comparable(runs: Sequence[FinishedRun], by: Sequence[str] = ()) -> None:
    """Refuse to compare runs that differ in more than a search over hyperparameters may."""
    for name in by:
        if runs and not any(name in run.flatten() for run in runs):
            known = sorted({name for run in runs for name in run.flatten()})
            check_choice("setting to tell apart by", name, known)
    groups: dict[tuple, list[FinishedRun]] = defaultdict(list)
    for run in runs:
        left_out = (run.test_environment, run.validation_environment)
        cell = (run.dataset, run.algorithm, run.sampling, run.seed, *left_out)
        groups[*cell, _values(run, by)].append(run)
    for group in groups.values():
        first = group[0].settings
        for run in group[1:]:
            names = [n for n in {**first, **run.settings} if first.get(n) != run.settings.get(n)]
            if names:
                told = ", ".join(
                    f"{n} ({first.get(n)!r} and {run.settings.get(n)!r})" for n in names
                )
                raise ValueError(
                    f"runs of {run.dataset}, {run.algorithm}, {run.sampling}, seed {run.seed} "
                    f"differ in {told}; tell them apart by one of these, or choose some of the runs"
                )


def flatten_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, hyperparameters among them, those of the balancer as `balancer.name`."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if name == "hyperparameters":
            flat |= value
        elif isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in value.items()}
        else:
            flat[name] = value
    return flat


def _values(run: FinishedRun, by: Sequence[str]) -> tuple[str, ...]:
    flat = run.flatten()
    return tuple(_freeze(flat.get(name)) for name in by)


def _freeze(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
