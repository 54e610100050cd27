"""What a picture is, as data: `svg` draws it on the page, `paper` with matplotlib into files."""

from __future__ import annotations

import base64
import colorsys
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

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
class Series:
    """Values in a colour, under a name in the legend."""

    kind: str
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""


@dataclass(frozen=True)
class Points(Series):
    """Dots, or rings, with a sentence about each; error bars upwards only in files."""

    ring: bool = False
    size: float = 5.0
    x_error: Sequence[float] | None = None
    y_error: Sequence[float] | None = None
    told: Sequence[str] = ()
    labels: Sequence[str] = ()  # written above the points


@dataclass(frozen=True)
class Line(Series):
    """A curve, with a gap where a value is missing; `spread` is a band around it."""

    spread: Sequence[float] | None = None


@dataclass(frozen=True)
class Bars(Series):
    """Bars around x from 0 to y, with a sentence about each; error bars only in files."""

    width: float = 0.8
    error: Sequence[float] | None = None
    told: Sequence[str] = ()


@dataclass(frozen=True)
class Stairs(Series):
    """A histogram of heights y over the edges x, filled or as an outline."""

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
    name: str = ""


Mark = Points | Line | Bars | Stairs | Level | Ways


@dataclass(frozen=True)
class Panel:
    """Marks over two axes. With `rows`, y counts named rows from the top."""

    title: str  # what is to be seen; read out on the page
    marks: Sequence[Mark]
    x: Axis
    y: Axis
    rows: Sequence[str] = ()
    caption: str = ""  # above the panel in a file
    height: float = 240.0  # in pixels on the page; of a row, where there are rows
    inches: tuple[float, float] = (5.6, 3.3)  # in a file


@dataclass(frozen=True)
class Heat:
    """A table of numbers, tinted from nothing at 0 to fully at ±`full`."""

    title: str
    cells: Floats
    rows: Sequence[str]
    columns: Sequence[str]
    kind: str = "after"
    full: float = 1.0
    write: Callable[[float], str] = lambda share: "–" if math.isnan(share) else f"{100 * share:.0f}"
    mark_diagonal: bool = False
    x_name: str = ""
    y_name: str = ""

    @property
    def inches(self) -> tuple[float, float]:
        n_rows, n_columns = self.cells.shape
        return max(3.0, 0.42 * n_columns + 1.7), max(2.4, 0.32 * n_rows + 1.5)


@dataclass(frozen=True)
class ImageTable:
    """Images [rows × columns, h, w, 3] in rows and columns, with names at the sides."""

    title: str
    images: Floats
    rows: Sequence[str]
    columns: Sequence[str]
    own: Sequence[int] = ()  # the column of each row that is framed on the page

    @property
    def inches(self) -> tuple[float, float]:
        return 0.62 * len(self.columns) + 1, 0.62 * len(self.rows) + 1


Part = Panel | Heat | ImageTable


# --- examples as images: any number of channels becomes red, green and blue ---------------------

LARGEST_SIDE = 96  # larger images are reduced to it
LARGEST_LOSSLESS = 48  # up to this side every pixel is kept
TEN = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"


def channel_colors(n_channels: int) -> Floats:
    """A clearly different colour for each channel [C, 3]."""
    if n_channels == 1:
        return np.ones((1, 3))
    if n_channels == 2:
        return np.array([[0.95, 0.25, 0.2], [0.2, 0.8, 0.35]])
    if n_channels == 3:
        return np.eye(3)
    if n_channels <= 10:
        return np.array([list(bytes.fromhex(code)) for code in TEN.split()[:n_channels]]) / 255
    hues = np.arange(n_channels) / n_channels
    return np.array([colorsys.hsv_to_rgb(hue, 1.0, 1.0) for hue in hues.tolist()])


def find_brightness(images: Tensor) -> tuple[float, float]:
    """Values shown as black and white: 0 and 1 if all keep to that, else what 98 % of them span.

    >>> import torch
    >>> find_brightness(torch.tensor([0.0, 0.5]))
    (0.0, 1.0)
    """
    values = images.detach().cpu().double().numpy()
    if values.size == 0 or (values.min() >= -0.01 and values.max() <= 1.01):
        return 0.0, 1.0
    black, white = np.quantile(values, [0.01, 0.99])
    return float(black), float(white if white > black else black + 1.0)


def is_image(shape: Sequence[int]) -> bool:
    """Whether examples of this shape can be looked at: [h, w] or [channels, h, w]."""
    return len(shape) in (2, 3)


def is_small(shape: Sequence[int]) -> bool:
    """Whether every pixel is kept, and shown as a square."""
    return len(shape) > 1 and max(shape[-2:]) <= LARGEST_LOSSLESS


def to_rgb(images: Tensor, brightness: tuple[float, float] = (0.0, 1.0)) -> Floats:
    """Images [B, h, w] or [B, C, h, w] on a dark ground, as [B, h, w, 3] between 0 and 1."""
    black, white = brightness
    pixels = images.detach().cpu().double().numpy()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    pixels = ((pixels - black) / (white - black)).clip(0, 1)
    colors = channel_colors(pixels.shape[1])
    return np.asarray(np.einsum("bchw,cr->bhwr", pixels, colors).clip(0, 1))


def tile(images: Floats, n_columns: int, gap: int = 2) -> Floats:
    """Images [B, h, w, 3] as one, row by row, with light gaps between."""
    missing = -len(images) % n_columns
    framed = np.pad(images, ((0, missing), (0, gap), (0, gap), (0, 0)), constant_values=1.0)
    _, height, width, _ = framed.shape
    canvas = framed.reshape(-1, n_columns, height, width, 3).swapaxes(1, 2)
    return canvas.reshape(-1, n_columns * width, 3)[:-gap, :-gap]


def encode_image(pixels: Floats) -> str:
    """An image [h, w, 3] as a data address: PNG if it is small, else a reduced JPEG."""
    image = Image.fromarray((255 * pixels.clip(0, 1)).round().astype(np.uint8))
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    kind = "png" if is_small(image.size) else "jpeg"
    content = io.BytesIO()
    image.save(content, kind, **({"optimize": True} if kind == "png" else {"quality": 82}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
