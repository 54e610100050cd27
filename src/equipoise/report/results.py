"""Result tables as pictures: Table 1 as bars, sweeps as curves, validation against the truth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.benchmark import ResultTable, SelectedRun, summarise
from equipoise.report.paper import draw_figure
from equipoise.report.pictures import Axis, Bars, Level, Line, Mark, Panel, Points, make_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OF_BATCHES = {"random": "before", "balanced": "after", "oracle": "third"}
KINDS = ("after", "before", "third", "poor", "fair")
WIDTH = 0.38
PERCENT = make_axis([], low=0.0, high=100.0, name="out-of-domain accuracy, %")


def draw_bars(
    chosen: Sequence[SelectedRun], *, selection: str = "balanced", ceiling: float | None = None
) -> Figure:
    """A panel for each dataset, a group of bars for each algorithm, a bar for each sampling."""
    shown = [run for run in chosen if run.selection == selection]
    panels = []
    for dataset in dict.fromkeys(run.dataset for run in shown):
        runs = [run for run in shown if run.dataset == dataset]
        algorithms = list(dict.fromkeys(run.algorithm for run in runs))
        marks = _make_bars(runs, algorithms) + _mark_ceiling(ceiling)
        ticks = tuple((float(i), name.replace("_", " ")) for i, name in enumerate(algorithms))
        axis = Axis(-0.6, len(algorithms) - 0.4, ticks)
        title = f"Accuracy on {dataset}"
        panels.append(Panel(title, tuple(marks), axis, PERCENT, caption=dataset, inches=(5.2, 3.8)))
    return draw_figure(panels, title=f"checkpoints by {selection} validation")


def _make_bars(runs: Sequence[SelectedRun], algorithms: Sequence[str]) -> list[Mark]:
    """The bars of each sampling, and the paper's numbers as rings over them."""
    samplings = list(dict.fromkeys(run.sampling for run in runs))
    marks: list[Mark] = []
    paper_x, paper_y = [], []
    for place, sampling in enumerate(samplings):
        x, y, error = [], [], []
        for position, algorithm in enumerate(algorithms):
            group = [r for r in runs if (r.algorithm, r.sampling) == (algorithm, sampling)]
            if not group:
                continue
            cell = summarise([run.ood_accuracy for run in group])
            x.append(position + (place - (len(samplings) - 1) / 2) * WIDTH)
            y.append(cell.mean)
            error.append(cell.spread or 0.0)
            if group[0].paper_accuracy is not None:
                paper_x.append(x[-1])
                paper_y.append(group[0].paper_accuracy)
        kind = OF_BATCHES.get(sampling, "fair")
        marks.append(Bars(kind, x, y, f"{sampling} batches", 0.92 * WIDTH, error))
    if paper_x:
        marks.append(Points("ink", paper_x, paper_y, "the paper's", ring=True))
    return marks


def draw_curves(
    table: ResultTable, *, axis: str, ceiling: float | None = None, label: int = 0
) -> Figure:
    """Columns are numbers along the axis; a row is named by its label at position `label`."""
    x = [float(column) for column in table.columns]
    marks: list[Mark] = []
    for row, color in zip(table.rows, KINDS * len(table.rows), strict=False):
        means = [math.nan if cell is None else cell.mean for cell in row.cells]
        spreads = [(cell.spread or 0.0) if cell else math.nan for cell in row.cells]
        name = row.labels[label]
        kind = OF_BATCHES.get(name, color)
        marks += [Line(kind, x, means, name, spreads), Points(kind, x, means, size=3.0)]
    ticks = tuple(zip(x, table.columns, strict=True))
    across = Axis(min(x), max(x), ticks, axis)
    return _draw_one(table.title, marks + _mark_ceiling(ceiling), across)


def draw_categories(table: ResultTable, *, ceiling: float | None = None) -> Figure:
    """Columns are names, drawn as points beside one another; the paper's as rings."""
    n_rows = max(1, len(table.rows))
    marks: list[Mark] = []
    for place, (row, kind) in enumerate(zip(table.rows, KINDS * len(table.rows), strict=False)):
        shift = 0.5 * (place - (n_rows - 1) / 2) / n_rows
        cells = [(i + shift, cell) for i, cell in enumerate(row.cells) if cell is not None]
        x, y = [x for x, _ in cells], [cell.mean for _, cell in cells]
        error = [cell.spread or 0.0 for _, cell in cells]
        marks.append(Points(kind, x, y, row.labels[0], y_error=error))
        paper = [(x, cell.paper) for x, cell in cells if cell.paper is not None]
        marks.append(Points(kind, [x for x, _ in paper], [y for _, y in paper], ring=True))
    ticks = tuple((float(i), name) for i, name in enumerate(table.columns))
    across = Axis(-0.5, len(table.columns) - 0.5, ticks, "rings: the paper's")
    return _draw_one(table.title, marks + _mark_ceiling(ceiling), across)


def _draw_one(title: str, marks: Sequence[Mark], across: Axis) -> Figure:
    values = [y for mark in marks if isinstance(mark, Points) for y in mark.y]
    values += [mark.value for mark in marks if isinstance(mark, Level)]
    known = [value for value in values if math.isfinite(value)] or [0.0, 100.0]
    room = 0.08 * (max(known) - min(known)) + 1.0
    low, high = min(known) - room, max(known) + room
    up = make_axis([], low=low, high=high, name=PERCENT.name)
    return draw_figure([Panel(title, tuple(marks), across, up, inches=(6.0, 3.8))])


def _mark_ceiling(ceiling: float | None) -> list[Mark]:
    if ceiling is None:
        return []
    return [Level(ceiling, name=f"ceiling {ceiling:g}", kind="faint")]


@dataclass(frozen=True)
class ValidationPoint:
    """What a rule's validation said at a checkpoint, and what was true; shares from 0 to 1."""

    dataset: str
    sampling: str
    algorithm: str
    seed: int
    step: int
    selection: str
    validation_accuracy: float
    ood_accuracy: float


def draw_validation(points: Sequence[ValidationPoint]) -> Figure:
    """A panel for each dataset: on the diagonal, validation says what is true elsewhere."""
    panels = []
    across = Axis(0.0, 100.0, PERCENT.ticks, "validation accuracy, %")
    for dataset in dict.fromkeys(point.dataset for point in points):
        marks: list[Mark] = [Line("faint", [0.0, 100.0], [0.0, 100.0])]
        for rule, kind in (("balanced", "after"), ("train-domain", "before")):
            for sampling in ("random", "balanced"):
                shown = [
                    (100 * p.validation_accuracy, 100 * p.ood_accuracy)
                    for p in points
                    if (p.dataset, p.selection, p.sampling) == (dataset, rule, sampling)
                ]
                if shown:
                    name = f"{rule} validation, {sampling} batches"
                    x, y = zip(*shown, strict=True)
                    ring = sampling == "random"
                    marks.append(Points(kind, x, y, name, ring=ring, size=3.5))
        title = f"Validation and truth, {dataset}"
        panels.append(
            Panel(title, tuple(marks), across, PERCENT, caption=dataset, inches=(4.6, 4.6))
        )
    return draw_figure(panels)
