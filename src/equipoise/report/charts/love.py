"""The Love plot: how far labels differ in every covariate, before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.report.charts.frame import (
    Scale,
    draw_chart,
    draw_legend,
    find_ticks,
    percent,
    write_number,
)
from equipoise.report.html import Html, element, join

ROW = 26.0
BOTTOM = 30.0


@dataclass(frozen=True)
class LoveRow:
    """A covariate and the largest |SMD| between two labels, before and after balancing."""

    name: str
    before: float
    after: float


def draw_love(rows: Sequence[LoveRow], *, title: str, threshold: float = 0.1) -> Html:
    """A row for each covariate: hollow before, filled after, the threshold as a dashed line."""
    largest = max([threshold, *(max(row.before, row.after) for row in rows)])
    scale = Scale(0.0, max(1.08 * largest, 2 * threshold), left=1.5, right=98.5)
    height = ROW * len(rows)
    shapes = [
        element(
            "rect",
            class_="zone",
            x=percent(scale.left),
            y=0,
            width=percent(scale.place(threshold) - scale.left),
            height=height,
        )
    ]
    for tick in find_ticks(0.0, scale.high, 4):
        x = percent(scale.place(tick))
        shapes.append(element("line", class_="grid", x1=x, x2=x, y1=0, y2=height))
        shapes.append(
            element(
                "text",
                write_number(tick),
                class_="tick",
                x=x,
                y=height + 16,
                text_anchor="start" if tick == 0 else "middle",
            )
        )
    line = percent(scale.place(threshold))
    shapes.append(element("line", class_="threshold", x1=line, x2=line, y1=0, y2=height))
    shapes += [_draw_row(row, scale, ROW * (i + 0.5)) for i, row in enumerate(rows)]
    names = [element("span", row.name, title=row.name) for row in rows]
    return join(
        [
            draw_legend(
                [
                    ("ring before", "random batches"),
                    ("dot after", "balanced batches"),
                    ("dash", f"{threshold:g}, small enough"),
                ]
            ),
            element(
                "div",
                element("div", join(names), class_="love-names", style=f"--row:{ROW:g}px"),
                draw_chart(title, height + BOTTOM, *shapes),
                class_="love",
            ),
        ]
    )


def _draw_row(row: LoveRow, scale: Scale, y: float) -> Html:
    before, after = percent(scale.place(row.before)), percent(scale.place(row.after))
    told = f"{row.name}: {write_number(row.before)} before, {write_number(row.after)} after"
    return element(
        "g",
        element("title", told),
        element("line", class_="way", x1=before, x2=after, y1=y, y2=y),
        element("circle", class_="ring before", cx=before, cy=y, r=5),
        element("circle", class_="dot after", cx=after, cy=y, r=5.5),
    )
