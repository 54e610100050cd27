"""Curves over one axis."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.report.charts.lines import Mark, Series
from equipoise.report.figures.style import COLORS, make_panels, quieten


def draw_curves(
    series: Sequence[Series],
    marks: Sequence[Mark] = (),
    *,
    x_name: str,
    y_name: str,
    threshold: float | None = None,
) -> Figure:
    """Some series over one axis; rings mark what was chosen."""
    figure, (axes,) = make_panels(1, 1, 5.6, 3.3)
    _draw(axes, series, marks, x_name, y_name, threshold)
    return figure


def draw_tuning(panels: Sequence[tuple[str, Sequence[Series]]], threshold: float) -> Figure:
    """A panel for each setting that could be another: (its name, the series over it)."""
    figure, places = make_panels(len(panels), 2, 4.2, 3.0)
    for axes, (name, series) in zip(places, panels, strict=True):
        _draw(axes, series, (), name, "difference of labels in z, SD", threshold)
    return figure


def _draw(
    axes: Axes,
    series: Sequence[Series],
    marks: Sequence[Mark],
    x_name: str,
    y_name: str,
    threshold: float | None,
) -> None:
    for s in series:
        axes.plot(s.x, s.y, "-o", markersize=3, color=COLORS[s.kind], label=s.name)
    for mark in marks:
        axes.plot(mark.x, mark.y, "o", markersize=11, fillstyle="none", color=COLORS[mark.kind])
    if threshold is not None:
        axes.axhline(threshold, color=COLORS["after"], linestyle=(0, (3, 3)), linewidth=1)
    axes.set_xlabel(x_name)
    axes.set_ylabel(y_name)
    quieten(axes)
    axes.legend(frameon=False, fontsize=8)
