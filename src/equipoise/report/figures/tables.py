"""Label × covariate, before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from equipoise.report.figures.style import shorten


def draw_tables(
    before: NDArray,
    after: NDArray,
    *,
    label_names: Sequence[str],
    covariate_name: str,
    value_names: Sequence[str] | None = None,
) -> Figure:
    """Label × covariate, as shares of each label: of random batches and of balanced ones."""
    n_rows, n_columns = before.shape
    size = (max(6.0, 1.0 * n_columns + 3), max(2.6, 0.42 * n_rows + 1.4))
    figure = Figure(figsize=size, layout="constrained")
    for axes, title, table in zip(
        figure.subplots(1, 2), ("random batches", "balanced batches"), (before, after), strict=True
    ):
        total = table.sum(axis=1, keepdims=True)
        shares = 100.0 * table / np.where(total > 0, total, 1)
        _draw_shares(axes, shares)
        axes.set_title(title)
        axes.set_xlabel(covariate_name)
        axes.set_ylabel("label")
        axes.set_xticks(np.arange(n_columns), value_names and shorten(value_names, 9))
        axes.set_yticks(np.arange(n_rows), shorten(label_names))
    return figure


def _draw_shares(axes: Axes, shares: NDArray) -> None:
    axes.imshow(shares, vmin=0, vmax=100, cmap="Blues", aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        axes.text(
            column,
            row,
            f"{share:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if share > 55 else "black",
        )
