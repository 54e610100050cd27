"""Pictures in rows and columns, with names at the sides."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from equipoise.report.figures.style import SOFT, shorten
from equipoise.report.images import RGB, tile


def draw_picture_table(
    pictures: RGB, columns: Sequence[str], rows: Sequence[str], *, size: float = 0.62
) -> Figure:
    """Pictures [rows × columns, h, w, 3], row by row; `size` is a picture's in inches."""
    n_columns = len(columns)
    figure = Figure(figsize=(size * n_columns + 1, size * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    axes.imshow(tile(pictures, n_columns), interpolation="nearest")
    height, width = pictures.shape[1] + 2, pictures.shape[2] + 2
    axes.set_xticks([width * (i + 0.5) - 1 for i in range(n_columns)], shorten(columns, 9))
    axes.set_yticks([height * (i + 0.5) - 1 for i in range(len(rows))], shorten(rows))
    axes.xaxis.tick_top()
    axes.tick_params(length=0, labelsize=8, colors=SOFT)
    axes.spines[:].set_visible(False)
    return figure
