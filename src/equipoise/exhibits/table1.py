"""Table 1: every algorithm with random and balanced batches on ColoredMNIST10 and ColoredMNIST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.benchmark import ResultTable, SelectedRun, SweepSpec, mark_best, select_runs
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.pivot import find_paper, pivot_runs, sort_runs
from equipoise.exhibits.request import ExhibitRequest, tell_failures
from equipoise.report import draw_bars

DATASETS = ("ColoredMNIST10", "ColoredMNIST")
ALGORITHMS = ("ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL")
SAMPLINGS = ("random", "balanced")
TEST_ENVIRONMENT = 2  # e = 0.9
RULES = ("balanced", "train-domain", "test-domain")
RECORD = ("dataset", "algorithm", "sampling", "seed", "selection", "ood_accuracy", "step")
CEILING = 75.0


def reproduce_table1(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Train what is missing and write records, table and plot.

    Records are a list with one entry for each run and selection rule.
    """
    swept = request.sweep(describe_table1(request, datasets=datasets, algorithms=algorithms))
    selected = select_runs(swept.finished(), RULES)
    return request.write(
        "table1",
        records=[as_record(run) for run in selected],
        tables=[make_table1(selected)],
        figure=draw_bars(selected, ceiling=CEILING),
        sentences=(*_tell(selected), *tell_failures(swept)),
    )


def describe_table1(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> SweepSpec:
    """The runs of Table 1."""
    return request.describe_sweep(
        datasets=tuple(datasets),
        algorithms=tuple(algorithms),
        samplings=SAMPLINGS,
        test_environments=(TEST_ENVIRONMENT,),
    )


def as_record(run: SelectedRun) -> dict[str, Any]:
    """The published form of a number: what it is of, and `ood_accuracy` from 0 to 1."""
    values = run.to_json()
    return {**{name: values[name] for name in RECORD}, **run.by}


def make_table1(selected: Sequence[SelectedRun]) -> ResultTable:
    """Rows by rule, dataset and sampling; a column for each algorithm."""
    columns, rows = pivot_runs(
        sort_runs(selected, RULES),
        row=lambda run: (run.selection, run.dataset, run.sampling),
        column=lambda run: run.algorithm,
    )
    n_seeds = len({run.seed for run in selected})
    note = (
        f"Out-of-domain accuracy in %, mean ± standard deviation over {n_seeds} seeds; in brackets "
        "the paper's number and the difference. The rules 'balanced' and 'train-domain' see no "
        f"test data and stand beside the paper's train-domain number. The ceiling is {CEILING:g}."
    )
    return ResultTable(
        "Table 1",
        ("selection", "dataset", "batches"),
        columns,
        mark_best(rows, together=2, by_column=False),
        (note,),
    )


def _tell(selected: Sequence[SelectedRun]) -> tuple[str, ...]:
    """How many balanced cells beat the paper's, by rules that see no test data."""
    told = []
    for rule in ("balanced", "train-domain"):
        shown = [r for r in selected if (r.selection, r.sampling) == (rule, "balanced")]
        cells = {(r.dataset, r.algorithm) for r in shown if find_paper(r) is not None}
        beaten = [
            (dataset, algorithm)
            for dataset, algorithm in sorted(cells)
            if _exceeds([r for r in shown if (r.dataset, r.algorithm) == (dataset, algorithm)])
        ]
        if cells:
            told.append(
                f"Under {rule} validation {len(beaten)} of {len(cells)} balanced cells have a "
                "higher mean than the paper's."
            )
    return tuple(told)


def _exceeds(group: Sequence[SelectedRun]) -> bool:
    paper = find_paper(group[0])
    mean = 100.0 * sum(run.ood_accuracy for run in group) / len(group)
    return paper is not None and mean > paper
