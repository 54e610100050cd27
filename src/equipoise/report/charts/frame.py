"""What all charts share: a fluid frame, a horizontal scale in percent, ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report.html import Html, element, join


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` onto percents `left` to `right` of a chart's width.

    >>> Scale(0, 2).place(1)
    53.0
    """

    low: float
    high: float
    left: float = 10.0
    right: float = 96.0

    def place(self, value: float) -> float:
        """The percent at which a value stands; what is outside stands at the border."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)


def percent(value: float) -> str:
    """A coordinate in percent of the chart's width."""
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def find_ticks(low: float, high: float, n_at_most: int = 5) -> list[float]:
    """Round values from `low` to `high`, about evenly spread.

    >>> find_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / n_at_most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def draw_chart(title: str, height: float, *shapes: Any, class_: str = "") -> Html:
    """A chart of full width and `height` pixels; the title is read out and shown on hover."""
    return element(
        "svg",
        element("title", title),
        *shapes,
        class_=f"chart {class_}".strip(),
        role="img",
        aria_label=title,
        width="100%",
        height=float(height),
    )


def draw_inner(
    scale: Scale, top: float, height: float, *shapes: Any, width: float = 1000, depth: float = 1000
) -> Html:
    """A part of a chart with coordinates of its own, 0…width by 0…depth, stretched to fit."""
    return element(
        "svg",
        *shapes,
        x=percent(scale.left),
        y=float(top),
        width=percent(scale.right - scale.left),
        height=float(height),
        viewBox=f"0 0 {width:g} {depth:g}",
        preserveAspectRatio="none",
        overflow="visible",
        aria_hidden="true",
    )


def draw_legend(entries: Sequence[tuple[str, str]]) -> Html:
    """Names beside the mark of their class: (class, name) each."""
    items = [
        element("span", element("i", class_=f"key {kind}"), name, class_="entry")
        for kind, name in entries
    ]
    return element("p", join(items), class_="legend")


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
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.0f}"
    elif size == 0 or size >= 0.0005:
        text = f"{value:.3f}" if size < 1 else f"{value:.2f}"
        text = text.rstrip("0").rstrip(".")
    else:
        text = f"{value:.0e}".replace("e-0", "e-")
    return text.replace("-", "−") if not text.startswith("−") else text


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
