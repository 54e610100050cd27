"""Of all runs of a cell and seed, the one that a rule selects: one number each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from equipoise.benchmark.result import RunResult
from equipoise.benchmark.selection import SELECTIONS


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
    hyperparameters: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return asdict(self)


def select_runs(results: Iterable[RunResult], rules: Sequence[str]) -> list[SelectedRun]:
    """For every cell, seed and rule the best run of the search, at its chosen checkpoint."""
    groups: dict[tuple, list[RunResult]] = defaultdict(list)
    for result in results:
        s = result.settings
        if s.test_environment is not None and s.validation_environment is None:
            key = (s.dataset, s.algorithm, s.sampling, str(s.test_environment), s.seed)
            groups[key].append(result)
    selected = []
    for key, group in groups.items():
        for name in rules:
            rule = SELECTIONS[name]()
            judged = [(result, rule.select(result.records)) for result in group]
            scored = {
                score: (result, record)
                for result, record in reversed(judged)  # of equals the first
                if (score := rule.score(record)) is not None
            }
            if not scored:
                continue
            result, record = scored[max(scored)]
            assert record.ood_accuracy is not None  # there is a test environment
            selected.append(
                SelectedRun(
                    *key,
                    selection=name,
                    ood_accuracy=record.ood_accuracy,
                    step=record.step,
                    hyperparameters=dict(result.settings.hyperparameters),
                )
            )
    return selected
