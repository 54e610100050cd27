"""Balanced validation: how well it tells the accuracy out of domain, checkpoint by checkpoint."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from equipoise.benchmark import Cell, FinishedRun, Record, ResultTable, Row
from equipoise.exhibits.request import Exhibit, ExhibitRequest, tell_failures
from equipoise.exhibits.tables import ALGORITHMS, DATASETS, describe_table1
from equipoise.report import ValidationPoint, draw_validation

RULES = ("balanced", "train-domain")
POOLED = "either"
ENOUGH = 1.0  # points that the chosen checkpoint may fall short of the best


@dataclass(frozen=True)
class Shortfall:
    """Points of accuracy that a rule's checkpoint lacks to the best one of the same choice.

    The choice is among the checkpoints of one run, or, where `sampling` is "either", among
    those of the runs with every kind of batches.
    """

    dataset: str
    sampling: str
    algorithm: str
    seed: int
    selection: str
    shortfall: float


def reproduce_validation(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Read the runs of Table 1, training those that are missing, and compare the two rules."""
    swept = request.sweep(describe_table1(request, datasets=datasets, algorithms=algorithms))
    runs = [
        run for run in swept.finished() if run.records[0].balanced_validation_accuracy is not None
    ]
    shortfalls = measure_shortfalls(runs)
    points = [point for run in runs for point in _list_points(run)]
    tables = [_tabulate_shortfalls(shortfalls), _tabulate_errors(points)]
    return request.write(
        "validation",
        records={
            "shortfalls": [asdict(each) for each in shortfalls],
            "checkpoints": [asdict(point) for point in points],
        },
        tables=tables,
        figure=draw_validation(points),
        sentences=(*_tell(shortfalls), *tell_failures(swept)),
    )


def measure_shortfalls(runs: Sequence[FinishedRun]) -> list[Shortfall]:
    """For every run and rule, and for the choice between the samplings of an algorithm and seed."""
    choices: dict[tuple[str, str, str, int], list[Record]] = defaultdict(list)
    for run in runs:
        for sampling in (run.sampling, POOLED):
            choices[run.dataset, sampling, run.algorithm, run.seed] += run.records
    return [
        Shortfall(*choice, selection=rule, shortfall=_measure(records, rule))
        for choice, records in choices.items()
        for rule in RULES
    ]


def _measure(records: Sequence[Record], rule: str) -> float:
    chosen = max(records, key=lambda record: _validation(record, rule))
    return 100.0 * (max(map(_ood, records)) - _ood(chosen))


def _ood(record: Record) -> float:
    assert record.ood_accuracy is not None  # the runs have a test environment
    return record.ood_accuracy


def _validation(record: Record, rule: str) -> float:
    balanced = record.balanced_validation_accuracy
    return (balanced or 0.0) if rule == "balanced" else record.validation_accuracy


def _list_points(run: FinishedRun) -> list[ValidationPoint]:
    return [
        ValidationPoint(
            dataset=run.dataset,
            sampling=run.sampling,
            algorithm=run.algorithm,
            seed=run.seed,
            step=record.step,
            selection=rule,
            validation_accuracy=_validation(record, rule),
            ood_accuracy=_ood(record),
        )
        for record in run.records
        for rule in RULES
    ]


def _tabulate_shortfalls(shortfalls: Sequence[Shortfall]) -> ResultTable:
    groups: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in shortfalls:
        groups[each.dataset, each.sampling][each.selection].append(each.shortfall)
    rows = []
    for labels, by_rule in sorted(groups.items()):
        cells = []
        for rule in RULES:
            values = np.array(by_rule[rule])
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            cells += [
                Cell(float(values.mean()), spread, len(values)),
                Cell(float(values.max()), None, len(values)),
            ]
        rows.append(Row(labels, tuple(cells)))
    columns = tuple(f"{rule}, {what}" for rule in RULES for what in ("mean", "worst"))
    return ResultTable(
        "How far the chosen checkpoint falls short of the best, in points",
        ("dataset", "batches"),
        columns,
        tuple(rows),
        (
            "Mean ± standard deviation over algorithms and seeds, and the worst of them. 'either': "
            "the rule chooses among the checkpoints of random and of balanced batches.",
        ),
    )


def _tabulate_errors(points: Sequence[ValidationPoint]) -> ResultTable:
    """How far the estimate is from the accuracy it stands for."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        error = 100.0 * abs(point.validation_accuracy - point.ood_accuracy)
        groups[point.dataset, point.sampling][point.selection].append(error)
    rows = [
        Row(
            labels,
            tuple(
                Cell(float(np.mean(by_rule[rule])), float(np.std(by_rule[rule])), 1)
                for rule in RULES
            ),
        )
        for labels, by_rule in sorted(groups.items())
    ]
    return ResultTable(
        "How far validation accuracy is from out-of-domain accuracy, in points",
        ("dataset", "batches"),
        RULES,
        tuple(rows),
        ("Mean and standard deviation of the absolute difference over all checkpoints.",),
    )


def _tell(shortfalls: Sequence[Shortfall]) -> list[str]:
    told = []
    for dataset in dict.fromkeys(each.dataset for each in shortfalls):
        means = {
            (sampling, rule): _mean(shortfalls, dataset, sampling, rule)
            for sampling in ("balanced", POOLED)
            for rule in RULES
        }
        verdict = "within" if means["balanced", "balanced"] <= ENOUGH else "not within"
        told.append(
            f"{dataset}, balanced batches: balanced validation chooses checkpoints {verdict} "
            f"{ENOUGH:g} point of the best ({means['balanced', 'balanced']:.2f} short on average); "
            f"train-domain validation falls {means['balanced', 'train-domain']:.2f} short. To "
            "choose between random and balanced batches as well, balanced validation falls "
            f"{means[POOLED, 'balanced']:.2f} short and train-domain validation "
            f"{means[POOLED, 'train-domain']:.2f}."
        )
    return told


def _mean(shortfalls: Sequence[Shortfall], dataset: str, sampling: str, rule: str) -> float:
    wanted = (dataset, sampling, rule)
    return float(
        np.mean(
            [
                each.shortfall
                for each in shortfalls
                if (each.dataset, each.sampling, each.selection) == wanted
            ]
        )
    )
