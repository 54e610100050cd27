"""The Love plot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from equipoise.report.charts.love import LoveRow
from equipoise.report.figures.style import COLORS, RULE, quieten, shorten


def draw_love(rows: Sequence[LoveRow], *, threshold: float = 0.1) -> Figure:
    """A row for each covariate: hollow before, filled after, the threshold as a dashed line."""
    figure = Figure(figsize=(6.4, 0.27 * len(rows) + 1.1), layout="constrained")
    axes = figure.subplots()
    places = range(len(rows))
    before, after = [row.before for row in rows], [row.after for row in rows]
    axes.hlines(places, before, after, color=RULE, linewidth=1.5, zorder=1)
    axes.scatter(
        before,
        places,
        s=30,
        facecolors="white",
        edgecolors=COLORS["before"],
        linewidths=1.5,
        label="random batches",
        zorder=2,
    )
    axes.scatter(after, places, s=34, color=COLORS["after"], label="balanced batches", zorder=3)
    axes.axvline(threshold, color=COLORS["after"], linestyle=(0, (3, 3)), linewidth=1)
    axes.set_yticks(places, shorten([row.name for row in rows]))
    axes.invert_yaxis()
    axes.set_xlim(left=-0.02 * max([*before, *after, threshold]))
    axes.set_xlabel("largest difference between two labels, in standard deviations")
    quieten(axes, grid="x")
    figure.legend(loc="outside upper left", frameon=False, fontsize=8, ncols=2)
    return figure
