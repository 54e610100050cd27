"""Selected runs in rows and columns: the mean over seeds in every cell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from equipoise.benchmark import Cell, Row, SelectedRun, summarise
from equipoise.paper import find_accuracy

Labels = tuple[str, ...]


def pivot_runs(
    selected: Sequence[SelectedRun],
    *,
    row: Callable[[SelectedRun], Labels],
    column: Callable[[SelectedRun], str],
    paper: bool = True,
) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Columns and rows in the order of first appearance; the paper's number where it has one."""
    groups: dict[tuple[Labels, str], list[SelectedRun]] = defaultdict(list)
    for run in selected:
        groups[row(run), column(run)].append(run)
    labels = dict.fromkeys(row(run) for run in selected)
    columns = tuple(dict.fromkeys(column(run) for run in selected))
    rows = [
        Row(each, tuple(_make_cell(groups.get((each, name)), paper) for name in columns))
        for each in labels
    ]
    return columns, tuple(rows)


def _make_cell(group: Sequence[SelectedRun] | None, paper: bool) -> Cell | None:
    if not group:
        return None
    number = find_paper(group[0]) if paper else None
    return summarise([run.ood_accuracy for run in group], paper=number)


def find_paper(run: SelectedRun) -> float | None:
    """The paper's accuracy for the cell of this run, in percent."""
    found = find_accuracy(
        dataset=run.dataset,
        algorithm=run.algorithm,
        sampling=run.sampling,
        test_environment=run.test_environment,
        selection=run.selection,
        metric=str(run.by.get("balancer.metric", "")),
    )
    return None if found is None else found.accuracy


def sort_runs(selected: Sequence[SelectedRun], rules: Sequence[str]) -> list[SelectedRun]:
    """By rule, then dataset, each in the order of first appearance."""
    datasets = list(dict.fromkeys(run.dataset for run in selected))
    return sorted(
        selected, key=lambda run: (rules.index(run.selection), datasets.index(run.dataset))
    )
