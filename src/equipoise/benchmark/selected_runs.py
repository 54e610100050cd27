"""Of all runs of a cell and seed, the one that a rule selects: one number each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from equipoise.benchmark.selection import RULES, Selection
from equipoise.benchmark.trials import FinishedRun, Judgement, Trial
from equipoise.choices import check_choice


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
                selected.append(_describe(name, *best, by))
    return selected


def _choose(rule: Selection, trials: Sequence[Trial]) -> tuple[FinishedRun, Judgement] | None:
    """The trial of the highest score, of equals the first."""
    judged = [(trial.run, found) for trial in trials if (found := rule.judge(trial)) is not None]
    return max(judged, key=lambda each: each[1].score) if judged else None


def _describe(rule: str, run: FinishedRun, judgement: Judgement, by: Sequence[str]) -> SelectedRun:
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
        by={name: _flatten(run).get(name) for name in by},
        run=run.name,
    )


def check_comparable(runs: Sequence[FinishedRun], by: Sequence[str] = ()) -> None:
    """Refuse to compare runs that differ in more than a search over hyperparameters may."""
    for name in by:
        if runs and not any(name in _flatten(run) for run in runs):
            known = sorted({name for run in runs for name in _flatten(run)})
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


def _flatten(run: FinishedRun) -> dict[str, Any]:
    """Settings by name, those of the balancer as `balancer.name`, then hyperparameters."""
    flat: dict[str, Any] = {}
    for name, value in run.settings.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in value.items()}
        else:
            flat[name] = value
    return {**run.hyperparameters, **flat}


def _values(run: FinishedRun, by: Sequence[str]) -> tuple[str, ...]:
    flat = _flatten(run)
    return tuple(_freeze(flat.get(name)) for name in by)


def _freeze(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
