"""Confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from equipoise.report.figures.style import make_panels, shorten
from equipoise.report.run_story import Confusion


def draw_confusions(confusions: Sequence[Confusion], names: Sequence[str]) -> Figure:
    """A panel for each part of the data: of each label's examples, the share taken for each."""
    side = 0.3 * len(names) + 1.6
    figure, panels = make_panels(len(confusions), 3, side, side)
    short = shorten(names, 12)
    for axes, found in zip(panels, confusions, strict=True):
        axes.imshow(found.shares, vmin=0, vmax=1, cmap="Blues")
        axes.set_xticks(range(len(names)), short, rotation=90)
        axes.set_yticks(range(len(names)), short)
        axes.set_title(f"{found.title}\n{found.accuracy:.1%} right", fontsize=8)
        axes.tick_params(length=0, labelsize=7)
        axes.spines[:].set_visible(False)
        for (row, column), share in np.ndenumerate(found.shares):
            if len(names) <= 12 and np.isfinite(share):
                color = "white" if share > 0.55 else "black"
                axes.text(
                    column,
                    row,
                    f"{100 * share:.0f}",
                    ha="center",
                    va="center",
                    fontsize=7,
                    color=color,
                )
    return figure
