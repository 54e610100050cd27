"""Bars: how many of something, by bin."""

from __future__ import annotations

import math
from collections.abc import Sequence

from equipoise.report.charts.frame import (
    Scale,
    draw_chart,
    find_ticks,
    percent,
    write_number,
    write_share,
)
from equipoise.report.html import Html, element

TOP, BOTTOM = 18.0, 36.0
#: How many characters stand side by side below the bars on the narrowest screen.
ROOM = 34


def draw_bars(
    names: Sequence[str], counts: Sequence[float], *, title: str, x_name: str, height: float = 220.0
) -> Html:
    """A bar for each bin, as a share of all, with its share above it."""
    total = float(sum(counts)) or 1.0
    shares = [count / total for count in counts]
    highest = max([*shares, 1e-9])
    depth = height - TOP - BOTTOM
    across = Scale(0, len(names), left=9.0, right=98.0)
    shapes = []
    for tick in find_ticks(0.0, highest, 4):
        y = TOP + depth * (1 - tick / highest)
        shapes.append(element("line", class_="grid", x1="9%", x2="98%", y1=y, y2=y))
        shapes.append(
            element("text", f"{100 * tick:g} %", class_="tick", x="8%", y=y + 4, text_anchor="end")
        )
    # Where names would run into each other, only every second or third is written.
    step = max(1, math.ceil(len(names) * (max(map(len, names), default=0) + 1) / ROOM))
    width = (across.right - across.left) / max(len(names), 1)
    for i, (name, count, share) in enumerate(zip(names, counts, shares, strict=True)):
        y = depth * share / highest
        shapes.append(
            element(
                "rect",
                element("title", f"{name}: {write_number(float(count))} ({write_share(share)})"),
                class_="bar after",
                x=percent(across.place(i) + 0.1 * width),
                width=percent(0.8 * width),
                y=TOP + depth - y,
                height=max(y, 1.0 if count else 0.0),
                rx=2,
            )
        )
        if i % step == 0:
            shapes.append(
                element(
                    "text",
                    name,
                    class_="tick",
                    x=percent(across.place(i + 0.5)),
                    y=height - BOTTOM + 16,
                    text_anchor="middle",
                )
            )
    shapes.append(element("text", x_name, class_="axis", x="98%", y=height - 4, text_anchor="end"))
    return draw_chart(title, height, *shapes)
