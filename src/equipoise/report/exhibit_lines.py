"""Result tables as curves: a line for each row, a point for each column, ± as a band."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.benchmark.result_table import ResultTable, Row
from equipoise.report.palette import LIGHT

# As in the bars of Table 1, of kinds of batches.
OF_BATCHES = {"random": LIGHT["before"], "balanced": LIGHT["after"], "oracle": LIGHT["third"]}
COLORS = (LIGHT["after"], LIGHT["before"], LIGHT["third"], LIGHT["poor"], LIGHT["fair"])


def draw_curves(
    table: ResultTable, *, axis: str, ceiling: float | None = None, label: int = 0
) -> Figure:
    """Columns are numbers along the axis; a row is named by its label at position `label`."""
    figure, axes = _make_axes(ceiling)
    x = np.array([float(column) for column in table.columns])
    for row, color in zip(table.rows, COLORS * len(table.rows), strict=False):
        name = row.labels[label]
        _draw_row(axes, x, row, OF_BATCHES.get(name, color), name)
    axes.set_xticks(x)
    _finish(axes, axis)
    return figure


def draw_categories(table: ResultTable, *, ceiling: float | None = None) -> Figure:
    """Columns are names, drawn as points beside one another; the paper's as crosses."""
    figure, axes = _make_axes(ceiling)
    n_rows = max(1, len(table.rows))
    for place, (row, color) in enumerate(zip(table.rows, COLORS * len(table.rows), strict=False)):
        shift = 0.5 * (place - (n_rows - 1) / 2) / n_rows
        for position, cell in enumerate(row.cells):
            if cell is None:
                continue
            x = position + shift
            axes.errorbar(
                x,
                cell.mean,
                yerr=cell.spread,
                fmt="o",
                color=color,
                capsize=3,
                label=row.labels[0] if position == 0 else None,
            )
            if cell.paper is not None:
                axes.plot(x, cell.paper, "x", color=color)
    axes.set_xticks(np.arange(len(table.columns)), table.columns)
    _finish(axes, "crosses: the paper's")
    return figure


def _make_axes(ceiling: float | None) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(6.0, 3.8), layout="constrained")
    axes = figure.subplots()
    if ceiling is not None:
        axes.axhline(ceiling, color=LIGHT["faint"], linewidth=0.8, linestyle=":")
        axes.annotate(
            f"ceiling {ceiling:g}",
            (1.0, ceiling),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color=LIGHT["faint"],
        )
    return figure, axes


def _draw_row(axes: Axes, x: np.ndarray, row: Row, color: str, name: str) -> None:
    means = np.array([np.nan if cell is None else cell.mean for cell in row.cells])
    spreads = np.array([(cell.spread or 0.0) if cell else np.nan for cell in row.cells])
    axes.plot(x, means, "o-", color=color, label=name, markersize=4)
    axes.fill_between(x, means - spreads, means + spreads, color=color, alpha=0.15, linewidth=0)


def _finish(axes: Axes, axis: str) -> None:
    axes.set_xlabel(axis)
    axes.set_ylabel("out-of-domain accuracy, %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=LIGHT["grid"])
    axes.set_axisbelow(True)
    axes.legend(frameon=False)
