"""What a picture is: panels of marks, tables of shares, tables of images.

Every picture is defined once, as data. `svg` draws it for the page, `paper` draws it with
matplotlib for .png, .pdf and .svg files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def write_number(value: float) -> str:
    """A number as short as it can be read.

    >>> [write_number(x) for x in (0.0, 0.012345, 1.5, 123456.0, float("inf"))]
    ['0', '0.012', '1.5', '123,456', '∞']
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 100:
        text = f"{value:,.0f}"
    elif size == 0 or size >= 0.0005:
        text = (f"{value:.3f}" if size < 1 else f"{value:.2f}").rstrip("0").rstrip(".")
    else:
        text = f"{value:.0e}".replace("e-0", "e-")
    return text.replace("-", "−")


def write_share(share: float, decimals: int = 0) -> str:
    """A share as percent, never rounded to a whole that it is not.

    >>> write_share(0.99999), write_share(0.00001)
    ('> 99\\u202f%', '< 1\\u202f%')
    """
    if math.isnan(share):
        return "–"
    least = 10.0**-decimals
    if 0 < share < least / 200:
        return f"< {least:g}\u202f%"
    if 1 - least / 200 < share < 1:
        return f"> {100 - least:g}\u202f%"
    return f"{100 * share:.{decimals}f}\u202f%"


def find_ticks(low: float, high: float, n_at_most: int = 4) -> list[float]:
    """Round values from `low` to `high`, about evenly spread.

    >>> find_ticks(0.0, 1.0, 5)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / n_at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


@dataclass(frozen=True)
class Axis:
    """A range, the ticks in it with their texts, and a name."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()
    name: str = ""

    def place(self, value: float) -> float:
        """Where a value stands, from 0 to 1; what is outside stands at the border."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return min(max(share, 0.0), 1.0)


def make_axis(
    values: Iterable[float],
    *,
    name: str = "",
    low: float | None = None,
    high: float | None = None,
    write: Callable[[float], str] = write_number,
    at_values: bool = False,
) -> Axis:
    """An axis around finite values; `at_values` puts the ticks on them where they are few."""
    known = sorted({float(value) for value in values if math.isfinite(value)}) or [0.0, 1.0]
    low = known[0] if low is None else low
    high = known[-1] if high is None else high
    ticks = known if at_values and len(known) <= 6 else find_ticks(low, high)
    return Axis(low, high, tuple((tick, write(tick)) for tick in ticks), name)


@dataclass(frozen=True)
class Points:
    """Dots, or rings; with error bars across or upwards, and a sentence about each point."""

    kind: str
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    ring: bool = False
    size: float = 5.0
    x_error: Sequence[float] | None = None
    y_error: Sequence[float] | None = None
    told: Sequence[str] = ()
    labels: Sequence[str] = ()  # written above the points


@dataclass(frozen=True)
class Line:
    """A curve, with a gap where a value is missing; `spread` is a band around it."""

    kind: str
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    spread: Sequence[float] | None = None


@dataclass(frozen=True)
class Bars:
    """Bars around x from 0 to y, with error bars and a sentence about each."""

    kind: str
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""
    width: float = 0.8
    error: Sequence[float] | None = None
    told: Sequence[str] = ()


@dataclass(frozen=True)
class Stairs:
    """A histogram over `edges`, filled or as an outline."""

    kind: str
    edges: Sequence[float]
    heights: Sequence[float]
    name: str = ""
    fill: bool = False


@dataclass(frozen=True)
class Level:
    """A line across the panel: along x, at a height; or upwards, at a value of x."""

    value: float
    upwards: bool = False
    name: str = ""
    kind: str = "after"
    dashed: bool = True


@dataclass(frozen=True)
class Ways:
    """Quiet lines, each from one x to another at a height."""

    start: Sequence[float]
    end: Sequence[float]
    y: Sequence[float]


Mark = Points | Line | Bars | Stairs | Level | Ways


@dataclass(frozen=True)
class Panel:
    """Marks over two axes. With `rows`, y counts named rows from the top.

    Attributes
    ----------
    title : str
        What is to be seen; read out on the page.
    caption : str
        Short text above the panel in a file.
    height : float
        In pixels on the page; of a row, where there are rows.
    inches : tuple of float
        Width and height in a file.
    """

    title: str
    marks: tuple[Mark, ...]
    x: Axis
    y: Axis
    rows: tuple[str, ...] = ()
    caption: str = ""
    height: float = 240.0
    inches: tuple[float, float] = (5.6, 3.3)


@dataclass(frozen=True)
class Heat:
    """A table of numbers, tinted from nothing at 0 to fully at ±`full`."""

    title: str
    cells: Floats
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    kind: str = "after"
    full: float = 1.0
    write: Callable[[float], str] = lambda share: "–" if math.isnan(share) else f"{100 * share:.0f}"
    mark_diagonal: bool = False
    x_name: str = ""
    y_name: str = ""

    @property
    def inches(self) -> tuple[float, float]:
        """Room for every cell."""
        n_rows, n_columns = self.cells.shape
        return max(3.0, 0.42 * n_columns + 1.7), max(2.4, 0.32 * n_rows + 1.5)


@dataclass(frozen=True)
class ImageTable:
    """Images [rows × columns, h, w, 3] in rows and columns, with names at the sides."""

    title: str
    images: Floats
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    own: tuple[int, ...] = ()  # the column of each row that is framed on the page

    @property
    def inches(self) -> tuple[float, float]:
        """Room for every image."""
        return 0.62 * len(self.columns) + 1, 0.62 * len(self.rows) + 1


Part = Panel | Heat | ImageTable
