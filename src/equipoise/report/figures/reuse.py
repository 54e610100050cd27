"""How many examples appear how often."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from equipoise.report.figures.style import COLORS, quieten


def draw_reuse(names: Sequence[str], counts: Sequence[float]) -> Figure:
    """A bar for each bin of expected appearances, in percent of the examples."""
    figure = Figure(figsize=(5.2, 2.8), layout="constrained")
    axes = figure.subplots()
    total = sum(counts) or 1.0
    axes.bar(range(len(names)), [100 * n / total for n in counts], color=COLORS["after"])
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("expected appearances, when each example is an anchor once")
    axes.set_ylabel("% of the examples")
    quieten(axes)
    return figure
