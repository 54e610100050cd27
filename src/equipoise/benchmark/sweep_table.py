"""The tables of a sweep: each dataset by test environment, and all datasets by their average."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from equipoise.benchmark.result_table import (
    SPREADS,
    Cell,
    ResultTable,
    Row,
    mark_best,
    summarise,
)
from equipoise.benchmark.selected_runs import SelectedRun
from equipoise.benchmark.selection import RULES
from equipoise.paper import find_accuracy
from equipoise.paper.accuracies import AVERAGE

Key = tuple[str, ...]


def make_tables(selected: Sequence[SelectedRun], *, spread: str = "deviation") -> list[ResultTable]:
    """A table for each dataset, and with several datasets one of their averages.

    The average of a seed is over all test environments of the dataset that occur; a seed that
    lacks one of them is not in it.
    """
    by = tuple(selected[0].by) if selected else ()
    labels = ("selection", "algorithm", "batches", *by)
    datasets = list(dict.fromkeys(run.dataset for run in selected))
    tables = [_tabulate_dataset(dataset, labels, selected, spread) for dataset in datasets]
    if len(datasets) > 1 and any(len(table.columns) > 1 for table in tables):
        rows = [
            Row(key, tuple(_average(dataset, key, group, spread) for dataset in datasets))
            for key, group in _group(selected).items()
        ]
        tables.append(
            ResultTable(
                "averages over test environments",
                labels,
                tuple(datasets),
                mark_best(rows, together=1, by_column=True),
                _notes(selected, spread),
            )
        )
    return tables


def _tabulate_dataset(
    dataset: str, labels: Key, selected: Sequence[SelectedRun], spread: str
) -> ResultTable:
    runs = [run for run in selected if run.dataset == dataset]
    environments = sorted({run.test_environment for run in runs}, key=_in_order)
    rows = []
    for key, group in _group(runs).items():
        cells = [
            _make_cell(dataset, environment, key, group, spread) for environment in environments
        ]
        if len(environments) > 1:
            cells.append(_average(dataset, key, group, spread))
        rows.append(Row(key, tuple(cells)))
    columns = (*environments, AVERAGE) if len(environments) > 1 else tuple(environments)
    return ResultTable(
        dataset,
        labels,
        columns,
        mark_best(rows, together=1, by_column=True),
        _notes(runs, spread),
    )


def _in_order(environment: str) -> tuple[float, str]:
    """Numbers by size, then names by the alphabet."""
    try:
        return float(environment), ""
    except ValueError:
        return float("inf"), environment


def _group(selected: Sequence[SelectedRun]) -> dict[Key, list[SelectedRun]]:
    """Runs by rule, algorithm, sampling and what else tells them apart, the rules first."""
    groups: dict[Key, list[SelectedRun]] = defaultdict(list)
    for run in sorted(selected, key=lambda run: list(RULES).index(run.selection)):
        told = tuple(str(value) for value in run.by.values())
        groups[run.selection, run.algorithm, run.sampling, *told].append(run)
    return groups


def _make_cell(
    dataset: str, environment: str, key: Key, group: Sequence[SelectedRun], spread: str
) -> Cell | None:
    values = [run.ood_accuracy for run in group if run.test_environment == environment]
    if not values:
        return None
    return summarise(values, spread=spread, paper=_find_paper(dataset, environment, key))


def _average(dataset: str, key: Key, group: Sequence[SelectedRun], spread: str) -> Cell | None:
    by_seed: dict[int, dict[str, float]] = defaultdict(dict)
    for run in group:
        if run.dataset == dataset:
            by_seed[run.seed][run.test_environment] = run.ood_accuracy
    environments = {name for found in by_seed.values() for name in found}
    means = [
        sum(found.values()) / len(found)
        for found in by_seed.values()
        if len(found) == len(environments)
    ]
    if not means:
        return None
    # The paper averages over every environment; one or two of them are something else.
    paper = _find_paper(dataset, AVERAGE, key) if len(environments) > 2 else None
    return summarise(means, spread=spread, paper=paper)


def _find_paper(dataset: str, environment: str, key: Key) -> float | None:
    selection, algorithm, sampling, *told = key
    if told:
        return None
    found = find_accuracy(
        dataset=dataset,
        algorithm=algorithm,
        sampling=sampling,
        test_environment=environment,
        selection=selection,
    )
    return None if found is None else found.accuracy


def _notes(selected: Sequence[SelectedRun], spread: str) -> tuple[str, ...]:
    seeds = len({run.seed for run in selected})
    said = f"± {SPREADS[spread]}, {seeds} of them" if seeds > 1 else "one seed"
    return (
        f"Out-of-domain accuracy in %, {said}; in brackets the paper's number and the difference. "
        "Columns are the environment left out.",
    )
