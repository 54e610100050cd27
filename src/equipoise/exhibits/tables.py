"""Tables 1, 2 and 4 of the paper."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from equipoise.benchmark import (
    Cell,
    ResultTable,
    Row,
    SelectedRun,
    make_tables,
    mark_best,
    pivot_runs,
    select_runs,
)
from equipoise.data import get_dataset
from equipoise.exhibits.request import (
    CEILING,
    RULES,
    Exhibit,
    ExhibitRequest,
    as_record,
)
from equipoise.paper import ALL_DATASETS, AVERAGE, find_accuracy, list_environments
from equipoise.report import draw_bars, draw_categories

DATASETS = ("ColoredMNIST10", "ColoredMNIST")
ALGORITHMS = ("ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL")


def reproduce_table1(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Train what is missing; records are a list with an entry for each run and selection rule."""
    swept = request.sweep(request.describe_sweep(datasets, algorithms))
    selected = select_runs(swept.finished(), RULES)
    table = _tabulate_table1(selected)
    told = []
    for rule in ("balanced", "train-domain"):  # those that see no test data
        found = [row.cells for row in table.rows if row.labels[::2] == (rule, "balanced")]
        cells = [cell for row in found for cell in row if cell and cell.paper is not None]
        beaten = sum((cell.difference or 0.0) > 0 for cell in cells)
        if cells:
            told.append(
                f"Under {rule} validation {beaten} of {len(cells)} balanced cells have a "
                "higher mean than the paper's."
            )
    return request.write(
        "table1",
        records=[as_record(run) for run in selected],
        tables=[table],
        figure=draw_bars(selected, ceiling=CEILING),
        sentences=told,
        swept=swept,
    )


def _tabulate_table1(selected: Sequence[SelectedRun]) -> ResultTable:
    """Rows by rule, dataset and sampling; a column for each algorithm."""
    datasets = list(dict.fromkeys(run.dataset for run in selected))
    columns, rows = pivot_runs(
        sorted(selected, key=lambda r: (RULES.index(r.selection), datasets.index(r.dataset))),
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


BENCHMARKS = (
    *("ColoredMNIST", "RotatedMNIST", "VLCS", "PACS"),
    *("OfficeHome", "TerraIncognita", "DomainNet"),
)
PUBLISHED = ("ERM", "IRM", "GroupDRO", "CORAL")
BLIND_RULES = ("train-domain", "balanced")


def reproduce_table2(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = BENCHMARKS,
    algorithms: Sequence[str] = PUBLISHED,
) -> Exhibit:
    """Train on the datasets that are on this machine, and say of the others what is missing.

    With `request.features` it is one dataset of frozen features instead.
    """
    if request.features is not None:
        return _reproduce_from_features(request, request.features)
    present, missing = [], {}
    for name in datasets:
        try:
            get_dataset(name, data_dir=request.data_dir)
            present.append(name)
        except (ValueError, OSError) as error:
            missing[name] = str(error)
    if not present:
        raise ValueError("no dataset of Table 2 is on this machine: " + " ".join(missing.values()))
    swept = request.sweep(request.describe_sweep(present, algorithms, test_environments=None))
    selected = select_runs(swept.finished(), BLIND_RULES)
    told = [f"{name} is not in the table. {why}." for name, why in missing.items()]
    tables = make_tables(selected)
    averages = _tabulate_averages(tables, datasets)
    return request.write(
        "table2",
        records=_list_records(selected),
        tables=[averages, *(table for table in tables if table.title in present)],
        figure=draw_categories(_take_rule(averages, BLIND_RULES[0])),
        sentences=told,
        swept=swept,
    )


def _reproduce_from_features(request: ExhibitRequest, features: Path) -> Exhibit:
    """Leave out each domain of a dataset of features, the paper's numbers beside."""
    data = get_dataset(str(features), data_dir=request.data_dir)
    if len(data.input_shape) != 1:
        raise ValueError(
            f"{features} holds examples of the shape {data.input_shape}, not features; make them "
            "with `equipoise data features`"
        )
    domains = {frozenset(names): dataset for dataset, names in list_environments().items()}
    name = domains.get(frozenset(data.environment_names), features.stem)
    swept = request.sweep(
        request.describe_sweep((str(features),), ALGORITHMS, test_environments=None)
    )
    selected = [replace(run, dataset=name) for run in select_runs(swept.finished(), BLIND_RULES)]
    note = (
        "Frozen features: a perceptron on features that were computed once. The paper trains a "
        "network end to end, so its numbers in brackets are for orientation only."
    )
    tables = [
        replace(table, title=f"Table 2, {name}, frozen features", notes=(*table.notes, note))
        for table in make_tables(selected)
    ]
    return request.write(
        "table2-features",
        records=_list_records(selected),
        tables=tables,
        figure=draw_categories(_take_rule(tables[0], BLIND_RULES[0])),
        sentences=(*_tell_differences(selected), note),
        swept=swept,
    )


def _tell_differences(selected: Sequence[SelectedRun]) -> list[str]:
    """By how much balanced batches change accuracy, domain by domain."""
    told = []
    for rule in BLIND_RULES:
        found = {
            (run.sampling, run.test_environment, run.algorithm, run.seed): 100 * run.ood_accuracy
            for run in selected
            if run.selection == rule
        }
        changes: dict[str, list[float]] = {}
        for (sampling, domain, algorithm, seed), accuracy in found.items():
            other = found.get(("random", domain, algorithm, seed))
            if sampling == "balanced" and other is not None:
                changes.setdefault(domain, []).append(accuracy - other)
        if changes:
            means = ", ".join(f"{d} {sum(v) / len(v):+.1f}" for d, v in changes.items())
            every = [change for domain in changes.values() for change in domain]
            helped = sum(change > 0 for change in every)
            told.append(
                f"Under {rule} validation balanced batches change accuracy by "
                f"{sum(every) / len(every):+.1f} points on average ({means}) and help in {helped} "
                f"of {len(every)} pairs of runs."
            )
    return told


def _list_records(selected: Sequence[SelectedRun]) -> list[dict[str, Any]]:
    return [{**as_record(run), "test_environment": run.test_environment} for run in selected]


def _tabulate_averages(tables: Sequence[ResultTable], datasets: Sequence[str]) -> ResultTable:
    """Rows by rule, algorithm and sampling; a column for each dataset, with data or without."""
    found: dict[tuple[str, ...], dict[str, Cell | None]] = {}
    for table in (table for table in tables if table.columns[-1] == AVERAGE):
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


METRICS = ("l1", "l2", "linf", "kl")
METRIC_SETTING = "balancer.metric"


def reproduce_table4(request: ExhibitRequest, *, dataset: str = "ColoredMNIST10") -> Exhibit:
    """Train with matches by each distance; one balancer is fitted for each, z being the same."""
    swept, selected = request.vary(dataset, "balanced", METRIC_SETTING, METRICS)
    columns, rows = pivot_runs(
        selected,
        row=lambda run: (run.selection,),
        column=lambda run: str(run.by[METRIC_SETTING]),
    )
    note = (
        f"{dataset}, ERM, balanced batches: out-of-domain accuracy in %, mean ± standard deviation "
        "over seeds; in brackets the paper's number and the difference."
    )
    rows = mark_best(rows, together=1, by_column=False)
    table = ResultTable("Table 4", ("selection",), columns, rows, (note,))
    means = [cell.mean for cell in rows[0].cells if cell] if rows else []
    told = [
        f"Under {row.labels[0]} validation the distances differ by "
        f"{max(means) - min(means):.1f} points at most; the paper finds 0.6 under train-domain "
        "validation and says that the choice does not matter much."
        for row in rows[:1]
    ]
    selected.sort(key=lambda run: (RULES.index(run.selection), run.seed))
    return request.write(
        "table4",
        records=[as_record(run) for run in selected],
        tables=[table],
        figure=draw_categories(table, ceiling=CEILING),
        sentences=told,
        swept=swept,
    )
