"""One look for all figures, in the colours of the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.report.palette import LIGHT

SOFT, RULE, GRID = LIGHT["soft"], LIGHT["rule"], LIGHT["grid"]
COLORS = {kind: LIGHT[kind] for kind in ("before", "after", "third")} | {"soft": LIGHT["faint"]}


def quieten(axes: Axes, *, grid: Literal["x", "y"] | None = "y") -> None:
    """Take away what says nothing: frame, tick marks; leave a faint grid."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labelsize=8, colors=SOFT)
    axes.xaxis.label.set_color(SOFT)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    if grid is not None:
        axes.grid(axis=grid, color=GRID, linewidth=0.8)
        axes.set_axisbelow(True)


def shorten(names: Sequence[str], n_at_most: int = 24) -> list[str]:
    """Names that fit beside an axis; a dollar sign is no formula.

    >>> shorten(["a$b", "x" * 30])[1][-2:]
    'x…'
    """
    short = [name if len(name) <= n_at_most else name[: n_at_most - 1] + "…" for name in names]
    return [name.replace("$", r"\$") for name in short]


def make_panels(n_panels: int, n_columns: int, width: float, height: float) -> tuple[Figure, list]:
    """A figure of so many panels, each of that size in inches, and their axes."""
    n_columns = min(n_columns, max(n_panels, 1))
    n_rows = -(-n_panels // n_columns)
    figure = Figure(figsize=(width * n_columns, height * n_rows), layout="constrained")
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel().tolist()
    for empty in axes[n_panels:]:
        empty.set_axis_off()
    return figure, axes[:n_panels]
