"""Table 2: the datasets of DomainBed, every environment left out in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from equipoise.benchmark import (
    Cell,
    ResultTable,
    Row,
    SelectedRun,
    make_tables,
    mark_best,
    select_runs,
)
from equipoise.data import get_dataset
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.request import ExhibitRequest, tell_failures
from equipoise.exhibits.table1 import as_record
from equipoise.paper import find_accuracy
from equipoise.paper.accuracies import ALL_DATASETS, AVERAGE
from equipoise.report import draw_categories

DATASETS = (
    *("ColoredMNIST", "RotatedMNIST", "VLCS", "PACS"),
    *("OfficeHome", "TerraIncognita", "DomainNet"),
)
ALGORITHMS = ("ERM", "IRM", "GroupDRO", "CORAL")
SAMPLINGS = ("random", "balanced")
RULES = ("train-domain", "balanced")


def reproduce_table2(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Train on the datasets that are on this machine, and say of the others what is missing."""
    present, missing = [], {}
    for name in datasets:
        try:
            get_dataset(name, data_dir=request.data_dir)
            present.append(name)
        except (ValueError, OSError) as error:
            missing[name] = str(error)
    if not present:
        raise ValueError("no dataset of Table 2 is on this machine: " + " ".join(missing.values()))
    spec = request.describe_sweep(
        datasets=tuple(present), algorithms=tuple(algorithms), samplings=SAMPLINGS
    )
    swept = request.sweep(spec)
    selected = select_runs(swept.finished(), RULES)
    told = [f"{name} is not in the table. {why}." for name, why in missing.items()]
    averages = make_averages(selected, datasets)
    return request.write(
        "table2",
        records=[{**as_record(run), "test_environment": run.test_environment} for run in selected],
        tables=[averages, *_list_details(selected)],
        figure=draw_categories(_take_rule(averages, RULES[0])),
        sentences=(*told, *tell_failures(swept)),
    )


def _list_details(selected: Sequence[SelectedRun]) -> list[ResultTable]:
    """The tables by test environment, one for each dataset."""
    datasets = {run.dataset for run in selected}
    return [table for table in make_tables(selected) if table.title in datasets]


def make_averages(selected: Sequence[SelectedRun], datasets: Sequence[str]) -> ResultTable:
    """Rows by rule, algorithm and sampling; a column for each dataset, with data or without."""
    found: dict[tuple[str, ...], dict[str, Cell | None]] = {}
    for table in make_tables(selected):
        if table.columns[-1] != AVERAGE:
            continue
        for row in table.rows:
            found.setdefault(row.labels, {})[table.title] = row.cells[-1]
    rows = []
    for labels, cells in found.items():
        chosen = [cells.get(name) for name in datasets]
        rows.append(Row(labels, (*chosen, _average_all(labels, chosen))))
    return ResultTable(
        "Table 2",
        ("selection", "algorithm", "batches"),
        (*datasets, AVERAGE),
        mark_best(rows, together=1, by_column=True),
        (
            "Out-of-domain accuracy in %, averaged over all test environments, mean ± standard "
            "deviation over seeds; in brackets the paper's number and the difference. The average "
            "is over all datasets and is there only if all of them are.",
        ),
    )


def _average_all(labels: tuple[str, ...], cells: Sequence[Cell | None]) -> Cell | None:
    there = [cell.mean for cell in cells if cell is not None]
    if not there or len(there) < len(cells):
        return None
    selection, algorithm, sampling = labels
    paper = find_accuracy(
        dataset=ALL_DATASETS,
        algorithm=algorithm,
        sampling=sampling,
        test_environment=AVERAGE,
        selection=selection,
    )
    mean = sum(there) / len(there)
    return Cell(mean, None, len(there), None if paper is None else paper.accuracy)


def _take_rule(table: ResultTable, rule: str) -> ResultTable:
    """The rows of one rule, named by algorithm and sampling."""
    rows = tuple(
        Row((" ".join(row.labels[1:]),), row.cells) for row in table.rows if row.labels[0] == rule
    )
    return replace(table, rows=rows, label_names=("batches",))
