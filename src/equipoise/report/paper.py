"""Pictures for papers and slides: the same definitions, drawn with matplotlib into files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.checks import check_choice
from equipoise.files import write_whole
from equipoise.report.html import LIGHT
from equipoise.report.pictures import (
    Bars,
    Heat,
    ImageTable,
    Level,
    Line,
    Mark,
    Panel,
    Part,
    Points,
    Stairs,
    Ways,
    tile,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
DASHED = (0, (3, 3))


def check_format(path: str | Path) -> str:
    """The format that a file's ending names; another one is a ValueError."""
    return check_choice("kind of picture", Path(path).suffix[1:].lower(), FORMATS)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole, in the format that the file's ending names: png, pdf or svg.

    No date is written, so that the same figure gives the same file.
    """
    kind = check_format(path)
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with write_whole(path) as temporary:
        figure.savefig(
            temporary, format=kind, dpi=150, bbox_inches="tight", metadata=dates.get(kind)
        )


def draw_figure(parts: Sequence[Part], *, n_columns: int = 3, title: str = "") -> Figure:
    """The parts side by side, in rows of `n_columns`, with one legend for all."""
    from matplotlib.figure import Figure

    n_columns = max(1, min(n_columns, len(parts)))
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
            case Panel():
                _draw_panel(axes, part)
            case Heat():
                _draw_heat(axes, part)
            case ImageTable():
                _draw_images(axes, part)
    if title:
        figure.suptitle(clean(title), fontsize=9, color=LIGHT["soft"])
    handles: dict[str, Any] = {}
    for axes in places:
        found, names = axes.get_legend_handles_labels()
        handles |= {name: handle for handle, name in zip(found, names, strict=True)}
    if handles:
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside upper left",
            ncols=min(3, len(handles)),
            frameon=False,
            fontsize=8,
        )
    return figure


def clean(name: str, n_at_most: int = 80) -> str:
    """A name that a file of any format can hold: one line, no formula, not too long.

    >>> clean("a$b\\nc"), clean("x" * 30, 24)[-2:]
    ('a\\\\$b c', 'x…')
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    text = text if len(text) <= n_at_most else text[: n_at_most - 1] + "…"
    return text.replace("$", r"\$")


def _draw_panel(axes: Axes, panel: Panel) -> None:
    for mark in panel.marks:
        _draw_mark(axes, mark)
    side = 0.02 * (panel.x.high - panel.x.low)
    axes.set_xlim(panel.x.low - side, panel.x.high + side)
    axes.set_xticks([v for v, _ in panel.x.ticks], [clean(text, 24) for _, text in panel.x.ticks])
    axes.set_xlabel(clean(panel.x.name), fontsize=9, color=LIGHT["soft"])
    axes.set_ylabel(clean(panel.y.name), fontsize=9, color=LIGHT["soft"])
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), [clean(name, 24) for name in panel.rows])
        axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    else:
        axes.set_yticks([v for v, _ in panel.y.ticks], [clean(text) for _, text in panel.y.ticks])
        axes.set_ylim(panel.y.low, panel.y.high)
    if panel.rows or panel.y.ticks:
        axes.grid(axis="x" if panel.rows else "y", color=LIGHT["grid"], linewidth=0.8)
        axes.set_axisbelow(True)
    axes.set_title(clean(panel.caption, 60), fontsize=8)


def _draw_mark(axes: Axes, mark: Mark) -> None:
    if isinstance(mark, Ways):
        axes.hlines(mark.y, mark.start, mark.end, color=LIGHT["rule"], linewidth=1.5, zorder=1)
        return
    color, name = LIGHT[mark.kind], clean(mark.name) or None
    match mark:
        case Points():
            face = LIGHT["card"] if mark.ring else color
            axes.errorbar(
                mark.x,
                mark.y,
                xerr=mark.x_error,
                yerr=mark.y_error,
                fmt="o",
                color=color,
                markerfacecolor=face,
                markeredgewidth=1.5,
                markersize=1.2 * mark.size,
                elinewidth=1.2,
                label=name,
                zorder=3,
            )
            for x, y, text in zip(mark.x, mark.y, mark.labels, strict=False):
                if math.isfinite(x + y):
                    place = axes.annotate(clean(text), (x, y), (0, 5), textcoords="offset points")
                    place.set(ha="center", fontsize=7, color=color)
        case Line():
            axes.plot(mark.x, mark.y, "-", color=color, label=name)
            if mark.spread is not None:
                means, spread = np.asarray(mark.y), np.asarray(mark.spread)
                low, high = means - spread, means + spread
                axes.fill_between(mark.x, low, high, color=color, alpha=0.15, linewidth=0)
        case Bars():
            axes.bar(mark.x, mark.y, mark.width, yerr=mark.error, color=color, label=name)
        case Stairs():
            style: dict[str, Any] = {"alpha": 0.45, "linewidth": 0} if mark.fill else {}
            axes.stairs(mark.heights, mark.edges, fill=mark.fill, color=color, label=name, **style)
        case Level():
            line = axes.axvline if mark.upwards else axes.axhline
            dashes = DASHED if mark.dashed else "-"
            line(mark.value, color=color, label=name, linestyle=dashes, linewidth=1)


def _draw_heat(axes: Axes, heat: Heat) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    ends = [LIGHT["before"], LIGHT["card"], LIGHT[heat.kind]]
    tints = LinearSegmentedColormap.from_list("tints", ends)
    axes.imshow(heat.cells, cmap=tints, vmin=-heat.full, vmax=heat.full, aspect="auto")
    axes.set_xticks(range(len(heat.columns)), [clean(name, 10) for name in heat.columns])
    axes.set_yticks(range(len(heat.rows)), [clean(name, 16) for name in heat.rows])
    if max((len(name) for name in heat.columns), default=0) > 4:
        axes.tick_params(axis="x", rotation=45)
    axes.set_xlabel(clean(heat.x_name), fontsize=9, color=LIGHT["soft"])
    axes.set_ylabel(clean(heat.y_name), fontsize=9, color=LIGHT["soft"])
    axes.set_title(clean(heat.title, 60), fontsize=8)
    if max(heat.cells.shape) <= 24:
        for (row, column), value in np.ndenumerate(heat.cells):
            strong = math.isfinite(value) and abs(value) > 0.6 * heat.full
            color = LIGHT["card"] if strong else LIGHT["ink"]
            text = axes.text(column, row, heat.write(value), fontsize=7, color=color)
            text.set(ha="center", va="center")


def _draw_images(axes: Axes, table: ImageTable) -> None:
    n_columns = len(table.columns)
    axes.imshow(tile(table.images, n_columns), interpolation="nearest")
    height, width = table.images.shape[1] + 2, table.images.shape[2] + 2
    columns = [clean(name, 9) for name in table.columns]
    axes.set_xticks([width * (i + 0.5) - 1 for i in range(n_columns)], columns)
    rows = [clean(name, 24) for name in table.rows]
    axes.set_yticks([height * (i + 0.5) - 1 for i in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.set_title(clean(table.title, 60), fontsize=8)
