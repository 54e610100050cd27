"""Overlap of two labels' scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from equipoise.report.charts.overlap import PairOverlap
from equipoise.report.figures.style import COLORS, make_panels, quieten, shorten


def draw_overlap(pairs: Sequence[PairOverlap]) -> Figure:
    """A panel for each pair: the first label above the line, the second below."""
    figure, panels = make_panels(len(pairs), 3, 2.6, 1.9)
    for axes, pair in zip(panels, pairs, strict=True):
        edges = np.linspace(0, 1, len(pair.first_before) + 1)
        for shares, side in ((pair.first_after, 1), (pair.second_after, -1)):
            axes.stairs(
                side * shares, edges, fill=True, color=COLORS["after"], alpha=0.45, linewidth=0
            )
        for shares, side in ((pair.first_before, 1), (pair.second_before, -1)):
            axes.stairs(side * shares, edges, color=COLORS["before"], linewidth=1)
        axes.axhline(0, color=COLORS["soft"], linewidth=0.8)
        first, second = shorten([pair.first, pair.second], 16)
        axes.set_title(f"above {first}, below {second}", fontsize=8)
        axes.set_xlim(0, 1)
        axes.set_yticks([])
        quieten(axes, grid=None)
    figure.supxlabel("probability of the first label, given z and one of the two", fontsize=9)
    figure.suptitle(
        "outline: random batches, filled: balanced batches", fontsize=8, x=0.02, ha="left"
    )
    return figure
