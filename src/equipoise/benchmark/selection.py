"""What checkpoints saw, and which is *the* one: selection rules and the data each needs."""

import json
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self

from equipoise.checks import check_choice
from equipoise.paper import find_accuracy

METRIC = "balancer.metric"  # a setting that the paper varies as well
RECORDS_VERSION = 2
CELL = ("dataset", "algorithm", "sampling", "test_environment", "seed")


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
    def from_json(cls, values: Mapping[str, Any]) -> Self:
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
    `arguments` are the length and split that DomainBed logs; runs may differ in them.
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
    arguments: Mapping[str, Any] = field(default_factory=dict)

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
    def score(self, record: Record, trial: Trial | None) -> float | None:
        """What a search over hyperparameters makes largest; None where the rule has no data."""

    def judge(self, trial: Trial) -> Judgement | None:
        """The chosen record and its score; None if the trial lacks what the rule needs."""
        return self._choose(trial.run.records, trial)

    def select(self, records: Sequence[Record]) -> Record:
        """The record of the highest score, of equals the first."""
        found = self._choose(records)
        if found is None:
            raise ValueError(
                "no record has an accuracy for this rule to select by; 'balanced' needs a balancer "
                "that leaves some held-out example a match"
            )
        return found.record

    def _choose(self, records: Sequence[Record], trial: Trial | None = None) -> Judgement | None:
        scores = [(record, self.score(record, trial)) for record in records]
        judged = [Judgement(r, s) for r, s in scores if s is not None and not math.isnan(s)]
        return max(judged, key=self._rank, default=None)

    def _rank(self, judgement: Judgement) -> float:
        return judgement.score


class TrainDomainSelection(Selection):
    """Best mean held-out accuracy of the training environments; needs no test data."""

    def score(self, record: Record, trial: Trial | None) -> float | None:
        return record.validation_accuracy


class BalancedSelection(Selection):
    """The same, weighted so that nothing is spurious; needs a fitted balancer, no test data."""

    def score(self, record: Record, trial: Trial | None) -> float | None:
        return record.balanced_validation_accuracy


class TestDomainSelection(Selection):
    """Oracle: the largest step, so that searches may compare runs on test data."""

    __test__ = False  # not a test class, whatever its name makes pytest think

    def score(self, record: Record, trial: Trial | None) -> float | None:
        return record.ood_held_out_accuracy

    def _rank(self, judgement: Judgement) -> float:
        return judgement.record.step

    def select(self, records: Sequence[Record]) -> Record:
        """The last record, whatever was measured of it."""
        return max(records, key=lambda record: record.step)


class LeaveOneDomainOutSelection(Selection):
    """Best mean accuracy on every other environment, each left out of training in its turn."""

    def score(self, record: Record, trial: Trial | None) -> float | None:
        assert trial is not None  # of one run's records there is nothing to say
        accuracies = []
        for other in record.train_accuracy:
            if other == trial.run.test_environment:
                continue
            found = [run for run in trial.companions if run.leaves_out(other)][:1]
            same = [r for run in found for r in run.records if r.step == record.step]
            if not same:
                return None
            accuracies.append(same[0].train_accuracy[other])
        return sum(accuracies) / len(accuracies)


SELECTIONS: dict[str, type[Selection]] = {
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
        cell = {name: getattr(self, name) for name in CELL if name != "seed"}
        metric = str(self.by.get(METRIC, ""))
        found = find_accuracy(**cell, selection=self.selection, metric=metric)
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
    for (*shared, test), group in single.items():
        trials = []
        for run in group:
            others = paired[*shared, _freeze(run.hyperparameters)]
            trials.append(Trial(run, tuple(each for each in others if each.leaves_out(test))))
        for name in rules:
            judged = [(t.run, best) for t in trials if (best := RULES[name]().judge(t))]
            if not judged:
                continue
            run, best = max(judged, key=lambda each: each[1].score)
            assert best.record.ood_accuracy is not None  # there is a test environment
            selected.append(
                SelectedRun(
                    **{fact: getattr(run, fact) for fact in CELL},
                    selection=name,
                    ood_accuracy=best.record.ood_accuracy,
                    step=best.record.step,
                    hyperparameters=dict(run.hyperparameters),
                    by={name: run.flatten().get(name) for name in by},
                    run=run.name,
                )
            )
    return selected


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
