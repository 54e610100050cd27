"""Table 1: every algorithm with random and balanced batches on ColoredMNIST10 and ColoredMNIST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.benchmark.result_table import Cell, ResultTable, Row, mark_best, summarise
from equipoise.benchmark.selected_runs import SelectedRun, select_runs
from equipoise.exhibits.request import ExhibitRequest
from equipoise.paper import find_accuracy
from equipoise.report import save_figure
from equipoise.report.exhibit_bars import draw_bars

DATASETS = ("ColoredMNIST10", "ColoredMNIST")
ALGORITHMS = ("ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL")
SAMPLINGS = ("random", "balanced")
TEST_ENVIRONMENT = "0.9"
RULES = ("balanced", "train-domain", "test-domain")
RECORD = ("dataset", "algorithm", "sampling", "seed", "selection", "ood_accuracy", "step")
CEILING = 75.0


def reproduce_table1(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
    samplings: Sequence[str] = SAMPLINGS,
    test_environment: str = TEST_ENVIRONMENT,
) -> ResultTable:
    """Train what is missing and write records, table and plot.

    Records are a list with one entry for each run and selection rule.
    """
    spec = request.describe_sweep(
        datasets=tuple(datasets),
        algorithms=tuple(algorithms),
        samplings=tuple(samplings),
        test_environments=(test_environment,),
    )
    swept = request.sweep(spec)
    chosen = select_runs(swept.finished(), RULES)
    missing = len(swept.errors)
    table = make_table1(chosen, n_missing=missing)
    request.write("table1", [as_record(run) for run in chosen], table)
    save_figure(draw_bars(chosen, ceiling=CEILING), request.path("table1", "png"))
    return table


def as_record(run: SelectedRun) -> dict[str, Any]:
    """The published form of a number: what it is of, and `ood_accuracy` from 0 to 1."""
    values = run.to_json()
    return {name: values[name] for name in RECORD}


def make_table1(chosen: Sequence[SelectedRun], *, n_missing: int = 0) -> ResultTable:
    """Rows by rule, dataset and sampling; a column for each algorithm."""
    algorithms = tuple(dict.fromkeys(run.algorithm for run in chosen))
    datasets = dict.fromkeys(run.dataset for run in chosen)
    samplings = dict.fromkeys(run.sampling for run in chosen)
    rows = [
        Row(
            (rule, dataset, sampling),
            tuple(_make_cell(chosen, rule, dataset, sampling, each) for each in algorithms),
        )
        for rule in RULES
        for dataset in datasets
        for sampling in samplings
    ]
    n_seeds = len({run.seed for run in chosen})
    notes = [
        f"Out-of-domain accuracy in %, mean ± standard deviation over {n_seeds} seeds; in brackets "
        "the paper's number and the difference. The rules 'balanced' and 'train-domain' see no "
        "test data and stand beside the paper's train-domain number. The ceiling is 75.",
    ]
    if n_missing:
        notes.append(f"{n_missing} runs failed and are not in the table.")
    return ResultTable(
        "Table 1",
        ("selection", "dataset", "batches"),
        algorithms,
        mark_best(rows, together=2, by_column=False),
        tuple(notes),
    )


def _make_cell(
    chosen: Sequence[SelectedRun], rule: str, dataset: str, sampling: str, algorithm: str
) -> Cell | None:
    wanted = (rule, dataset, sampling, algorithm)
    group = [
        run for run in chosen if (run.selection, run.dataset, run.sampling, run.algorithm) == wanted
    ]
    if not group:
        return None
    found = find_accuracy(
        dataset=dataset,
        algorithm=algorithm,
        sampling=sampling,
        test_environment=group[0].test_environment,
        selection=rule,
    )
    paper = None if found is None else found.accuracy
    return summarise([run.ood_accuracy for run in group], paper=paper)
