"""Pictures for papers: the same definitions in matplotlib, and result tables as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.benchmark import ResultTable, SelectedRun, summarise
from equipoise.checks import check_choice
from equipoise.files import write_whole
from equipoise.report import pictures as pic
from equipoise.report.html import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
DASHED = (0, (3, 3))
OF_BATCHES = {"random": "before", "balanced": "after", "oracle": "third"}
KINDS = ("after", "before", "third", "poor", "fair")
WIDTH = 0.38
PERCENT = pic.make_axis([], low=0.0, high=100.0, name="out-of-domain accuracy, %")


def check_format(path: str | Path) -> str:
    """The format that a file's ending names; another one is a ValueError."""
    return check_choice("kind of picture", Path(path).suffix[1:].lower(), FORMATS)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole as png, pdf or svg, undated: the same figure gives the same file."""
    kind = check_format(path)
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with write_whole(path) as temporary:
        figure.savefig(
            temporary, format=kind, dpi=150, bbox_inches="tight", metadata=dates.get(kind)
        )


def draw_figure(parts: Sequence[pic.Part], *, title: str = "") -> Figure:
    """The parts side by side, in rows of three, with one legend for all."""
    from matplotlib.figure import Figure

    n_columns = max(1, min(3, len(parts)))
    n_rows = max(1, -(-len(parts) // n_columns))
    width, height = (max((part.inches[i] for part in parts), default=3.0) for i in (0, 1))
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    places = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    for empty in places[len(parts) :]:
        empty.set_axis_off()
    for axes, part in zip(places, parts, strict=False):
        axes.tick_params(length=0, labelsize=8, colors=LIGHT["soft"])
        axes.spines[:].set_visible(False)
        match part:
            case pic.Panel():
                _draw_panel(axes, part)
            case pic.Heat():
                _draw_heat(axes, part)
            case pic.ImageTable():
                _draw_images(axes, part)
    if title:
        figure.suptitle(clean(title), fontsize=9, color=LIGHT["soft"])
    handles: dict[str, Any] = {}
    for axes in places:
        found, names = axes.get_legend_handles_labels()
        handles |= dict(zip(names, found, strict=True))
    if handles:
        place: dict[str, Any] = {"loc": "outside upper left", "ncols": min(3, len(handles))}
        figure.legend([*handles.values()], [*handles], **place, frameon=False, fontsize=8)
    return figure


def clean(name: str, n_at_most: int = 80) -> str:
    """A name that a file of any format can hold: one line, no formula, not too long.

    >>> clean("a$b\\nc"), clean("x" * 30, 24)[-2:]
    ('a\\\\$b c', 'x…')
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    text = text if len(text) <= n_at_most else text[: n_at_most - 1] + "…"
    return text.replace("$", r"\$")


def _draw_panel(axes: Axes, panel: pic.Panel) -> None:
    for mark in panel.marks:
        _draw_mark(axes, mark)
    side = 0.02 * (panel.x.high - panel.x.low)
    axes.set_xlim(panel.x.low - side, panel.x.high + side)
    axes.set_xticks([v for v, _ in panel.x.ticks], [clean(text, 24) for _, text in panel.x.ticks])
    _name_axes(axes, panel.x.name, panel.y.name, panel.caption)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), [clean(name, 24) for name in panel.rows])
        axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    else:
        axes.set_yticks([v for v, _ in panel.y.ticks], [clean(text) for _, text in panel.y.ticks])
        axes.set_ylim(panel.y.low, panel.y.high)
    if panel.rows or panel.y.ticks:
        axes.grid(axis="x" if panel.rows else "y", color=LIGHT["grid"], linewidth=0.8)
        axes.set_axisbelow(True)


def _name_axes(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlabel(clean(x), fontsize=9, color=LIGHT["soft"])
    axes.set_ylabel(clean(y), fontsize=9, color=LIGHT["soft"])
    axes.set_title(clean(title, 60), fontsize=8)


def _draw_mark(axes: Axes, mark: pic.Mark) -> None:
    if isinstance(mark, pic.Ways):
        axes.hlines(mark.y, mark.start, mark.end, color=LIGHT["rule"], linewidth=1.5, zorder=1)
        return
    color, name = LIGHT[mark.kind], clean(mark.name) or None
    match mark:
        case pic.Points():
            style: dict[str, Any] = {"xerr": mark.x_error, "yerr": mark.y_error, "elinewidth": 1.2}
            style |= {"markerfacecolor": LIGHT["card"] if mark.ring else color, "zorder": 3}
            style |= {"markeredgewidth": 1.5, "markersize": 1.2 * mark.size}
            axes.errorbar(mark.x, mark.y, fmt="o", color=color, label=name, **style)
            for x, y, text in zip(mark.x, mark.y, mark.labels, strict=False):
                if math.isfinite(x + y):
                    place = axes.annotate(clean(text), (x, y), (0, 5), textcoords="offset points")
                    place.set(ha="center", fontsize=7, color=color)
        case pic.Line():
            axes.plot(mark.x, mark.y, "-", color=color, label=name)
            if mark.spread is not None:
                means, spread = np.asarray(mark.y), np.asarray(mark.spread)
                low, high = means - spread, means + spread
                axes.fill_between(mark.x, low, high, color=color, alpha=0.15, linewidth=0)
        case pic.Bars():
            axes.bar(mark.x, mark.y, mark.width, yerr=mark.error, color=color, label=name)
        case pic.Stairs():
            style = {"alpha": 0.45, "linewidth": 0} if mark.fill else {}
            axes.stairs(mark.y, mark.x, fill=mark.fill, color=color, label=name, **style)
        case pic.Level():
            line = axes.axvline if mark.upwards else axes.axhline
            dashes = DASHED if mark.dashed else "-"
            line(mark.value, color=color, label=name, linestyle=dashes, linewidth=1)


def _draw_heat(axes: Axes, heat: pic.Heat) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ends = [LIGHT["before"], LIGHT["card"], LIGHT[heat.kind]]
    tints = LinearSegmentedColormap.from_list("tints", ends)
    axes.imshow(heat.cells, cmap=tints, vmin=-heat.full, vmax=heat.full, aspect="auto")
    axes.set_xticks(range(len(heat.columns)), [clean(name, 10) for name in heat.columns])
    axes.set_yticks(range(len(heat.rows)), [clean(name, 16) for name in heat.rows])
    if max((len(name) for name in heat.columns), default=0) > 4:
        axes.tick_params(axis="x", rotation=45)
    _name_axes(axes, heat.x_name, heat.y_name, heat.title)
    if max(heat.cells.shape) <= 24:
        for (row, column), value in np.ndenumerate(heat.cells):
            strong = math.isfinite(value) and abs(value) > 0.6 * heat.full
            color = LIGHT["card"] if strong else LIGHT["ink"]
            text = axes.text(column, row, heat.write(value), fontsize=7, color=color)
            text.set(ha="center", va="center")


def _draw_images(axes: Axes, table: pic.ImageTable) -> None:
    n_columns = len(table.columns)
    axes.imshow(pic.tile(table.images, n_columns), interpolation="nearest")
    height, width = table.images.shape[1] + 2, table.images.shape[2] + 2
    columns = [clean(name, 9) for name in table.columns]
    axes.set_xticks([width * (i + 0.5) - 1 for i in range(n_columns)], columns)
    rows = [clean(name, 24) for name in table.rows]
    axes.set_yticks([height * (i + 0.5) - 1 for i in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.set_title(clean(table.title, 60), fontsize=8)


# --- result tables -----------------------------------------------------------------------------


def draw_bars(chosen: Sequence[SelectedRun], *, ceiling: float | None = None) -> Figure:
    """A panel for each dataset, a group of bars for each algorithm, a bar for each sampling."""
    shown = [run for run in chosen if run.selection == "balanced"]
    panels = []
    for dataset in dict.fromkeys(run.dataset for run in shown):
        runs = [run for run in shown if run.dataset == dataset]
        algorithms = list(dict.fromkeys(run.algorithm for run in runs))
        marks = _make_bars(runs, algorithms) + _mark_ceiling(ceiling)
        axis = _name_ticks([name.replace("_", " ") for name in algorithms], 0.6)
        style: dict[str, Any] = {"caption": dataset, "inches": (5.2, 3.8)}
        panels.append(pic.Panel(f"Accuracy on {dataset}", marks, axis, PERCENT, **style))
    return draw_figure(panels, title="checkpoints by balanced validation")


def _name_ticks(names: Sequence[str], room: float, name: str = "") -> pic.Axis:
    """Names side by side, with room at the ends."""
    return pic.Axis(-room, len(names) - 1 + room, tuple(enumerate(names)), name)


def _make_bars(runs: Sequence[SelectedRun], algorithms: Sequence[str]) -> list[pic.Mark]:
    """The bars of each sampling, and the paper's numbers as rings over them."""
    samplings = list(dict.fromkeys(run.sampling for run in runs))
    marks: list[pic.Mark] = []
    paper = []
    for place, sampling in enumerate(samplings):
        shift = (place - (len(samplings) - 1) / 2) * WIDTH
        bars = []
        for position, algorithm in enumerate(algorithms):
            group = [r for r in runs if (r.algorithm, r.sampling) == (algorithm, sampling)]
            if group:
                cell = summarise([run.ood_accuracy for run in group])
                bars.append((position + shift, cell.mean, cell.spread or 0.0))
                if group[0].paper_accuracy is not None:
                    paper.append((position + shift, group[0].paper_accuracy))
        x, y, error = zip(*bars, strict=True)
        kind = OF_BATCHES.get(sampling, "fair")
        marks.append(pic.Bars(kind, x, y, f"{sampling} batches", 0.92 * WIDTH, error))
    if paper:
        x, y = zip(*paper, strict=True)
        marks.append(pic.Points("ink", x, y, "the paper's", ring=True))
    return marks


def draw_curves(table: ResultTable, *, axis: str, ceiling: float | None = None) -> Figure:
    """Columns are numbers along the axis; a row is named by its first label."""
    x = [float(column) for column in table.columns]
    marks: list[pic.Mark] = []
    for row, color in zip(table.rows, KINDS * len(table.rows), strict=False):
        means = [math.nan if cell is None else cell.mean for cell in row.cells]
        spreads = [(cell.spread or 0.0) if cell else math.nan for cell in row.cells]
        name = row.labels[0]
        kind = OF_BATCHES.get(name, color)
        marks += [pic.Line(kind, x, means, name, spreads), pic.Points(kind, x, means, size=3.0)]
    across = pic.Axis(min(x), max(x), tuple(zip(x, table.columns, strict=True)), axis)
    return _draw_one(table.title, marks + _mark_ceiling(ceiling), across)


def draw_categories(table: ResultTable, *, ceiling: float | None = None) -> Figure:
    """Columns are names, drawn as points beside one another; the paper's as rings."""
    n_rows = max(1, len(table.rows))
    marks: list[pic.Mark] = []
    for place, (row, kind) in enumerate(zip(table.rows, KINDS * len(table.rows), strict=False)):
        shift = 0.5 * (place - (n_rows - 1) / 2) / n_rows
        cells = [(i + shift, cell) for i, cell in enumerate(row.cells) if cell is not None]
        error = [cell.spread or 0.0 for _, cell in cells]
        x, means = [x for x, _ in cells], [cell.mean for _, cell in cells]
        marks.append(pic.Points(kind, x, means, row.labels[0], y_error=error))
        paper = [(x, cell.paper) for x, cell in cells if cell.paper is not None]
        marks.append(pic.Points(kind, [x for x, _ in paper], [y for _, y in paper], ring=True))
    across = _name_ticks(table.columns, 0.5, "rings: the paper's")
    return _draw_one(table.title, marks + _mark_ceiling(ceiling), across)


def _draw_one(title: str, marks: Sequence[pic.Mark], across: pic.Axis) -> Figure:
    values = [y for mark in marks if isinstance(mark, pic.Points) for y in mark.y]
    values += [mark.value for mark in marks if isinstance(mark, pic.Level)]
    known = [value for value in values if math.isfinite(value)] or [0.0, 100.0]
    room = 0.08 * (max(known) - min(known)) + 1.0
    up = pic.make_axis([], low=min(known) - room, high=max(known) + room, name=PERCENT.name)
    return draw_figure([pic.Panel(title, marks, across, up, inches=(6.0, 3.8))])


def _mark_ceiling(ceiling: float | None) -> list[pic.Mark]:
    return (
        [] if ceiling is None else [pic.Level(ceiling, name=f"ceiling {ceiling:g}", kind="faint")]
    )


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
    rules = ("balanced", "after"), ("train-domain", "before")
    across = pic.Axis(0.0, 100.0, PERCENT.ticks, "validation accuracy, %")
    for dataset in dict.fromkeys(point.dataset for point in points):
        marks: list[pic.Mark] = [pic.Line("faint", [0.0, 100.0], [0.0, 100.0])]
        for (rule, kind), sampling in product(rules, ("random", "balanced")):
            shown = [
                (100 * p.validation_accuracy, 100 * p.ood_accuracy)
                for p in points
                if (p.dataset, p.selection, p.sampling) == (dataset, rule, sampling)
            ]
            if shown:
                x, y = zip(*shown, strict=True)
                name, ring = f"{rule} validation, {sampling} batches", sampling == "random"
                marks.append(pic.Points(kind, x, y, name, ring=ring, size=3.5))
        style: dict[str, Any] = {"caption": dataset, "inches": (4.6, 4.6)}
        panels.append(
            pic.Panel(f"Validation and truth, {dataset}", marks, across, PERCENT, **style)
        )
    return draw_figure(panels)
