"""Curves: some series over one axis, with marks where something was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from equipoise.report.charts.frame import (
    Scale,
    draw_chart,
    draw_inner,
    draw_legend,
    find_ticks,
    percent,
    write_number,
)
from equipoise.report.html import Html, element, join

LEFT, RIGHT = 11.0, 97.0
TOP, BOTTOM = 14.0, 38.0


@dataclass(frozen=True)
class Series:
    """A named curve; `kind` is its class on the page: before, after, third or soft."""

    name: str
    kind: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Mark:
    """A point that was chosen, and by what."""

    name: str
    kind: str
    x: float
    y: float


@dataclass(frozen=True)
class _Plane:
    """Where values stand: x in percent of the width, y in pixels from the top."""

    across: Scale
    low: float
    high: float
    height: float

    @property
    def depth(self) -> float:
        return self.height - TOP - BOTTOM

    def fall(self, y: float) -> float:
        """The share of the way from the top to the bottom at which y stands."""
        return 1 - (y - self.low) / (self.high - self.low)

    def down(self, y: float) -> float:
        return TOP + self.depth * self.fall(y)


def draw_lines(
    series: Sequence[Series],
    *,
    title: str,
    x_name: str,
    y_range: tuple[float, float] | None = None,
    marks: Sequence[Mark] = (),
    write_x: Callable[[float], str] = write_number,
    write_y: Callable[[float], str] = write_number,
    threshold: float | None = None,
    height: float = 240.0,
) -> Html:
    """Curves over a shared axis; values that are not finite leave a gap."""
    everything = [x for s in series for x in s.x]
    across = Scale(min(everything), max(everything), left=LEFT, right=RIGHT)
    plane = _Plane(across, *(y_range or _range_of(series, threshold)), height)
    curves = [element("path", class_=f"curve {s.kind}", d=_trace(s, plane)) for s in series]
    shapes = _draw_axes(plane, series, x_name, write_x, write_y)
    if threshold is not None:
        shapes.append(_draw_level("threshold", plane.down(threshold)))
    shapes.append(draw_inner(across, TOP, plane.depth, *curves))
    for s in series:
        for x, y in zip(s.x, s.y, strict=True):
            if math.isfinite(y):
                told = f"{s.name}: {write_y(y)} at {write_x(x)}"
                shapes.append(_draw_point(f"point {s.kind}", told, plane, x, y, 2.6))
    shapes += [
        _draw_point(f"mark {mark.kind}", mark.name, plane, mark.x, mark.y, 7) for mark in marks
    ]
    legend = draw_legend([(f"bar {s.kind}", s.name) for s in series])
    return join([legend, draw_chart(title, height, *shapes)])


def _draw_axes(
    plane: _Plane,
    series: Sequence[Series],
    x_name: str,
    write_x: Callable[[float], str],
    write_y: Callable[[float], str],
) -> list[Html]:
    shapes = []
    for tick in find_ticks(plane.low, plane.high, 4):
        y = plane.down(tick)
        shapes.append(_draw_level("grid", y))
        shapes.append(_write(write_y(tick), "tick", LEFT - 1.5, y + 4, "end"))
    below = plane.height - BOTTOM + 16
    shapes += [
        _write(write_x(tick), "tick", plane.across.place(tick), below, "middle")
        for tick in _ticks_of(series, plane.across)
    ]
    return [*shapes, _write(x_name, "axis", RIGHT, plane.height - 4, "end")]


def _draw_level(kind: str, y: float) -> Html:
    return element("line", class_=kind, x1=percent(LEFT), x2=percent(RIGHT), y1=y, y2=y)


def _write(text: str, kind: str, x: float, y: float, anchor: str) -> Html:
    return element("text", text, class_=kind, x=percent(x), y=y, text_anchor=anchor)


def _draw_point(kind: str, told: str, plane: _Plane, x: float, y: float, radius: float) -> Html:
    return element(
        "circle",
        element("title", told),
        class_=kind,
        cx=percent(plane.across.place(x)),
        cy=plane.down(y),
        r=radius,
    )


def _trace(series: Series, plane: _Plane) -> str:
    """A path in a frame of 1000 × 1000, begun anew after every gap."""
    steps, pen = [], "M"
    for x, y in zip(series.x, series.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        place = (plane.across.place(x) - LEFT) / (RIGHT - LEFT)
        steps.append(f"{pen}{1000 * place:.1f} {1000 * plane.fall(y):.1f}")
        pen = "L"
    return "".join(steps)


def _range_of(series: Sequence[Series], threshold: float | None) -> tuple[float, float]:
    values = [y for s in series for y in s.y if math.isfinite(y)]
    values += [] if threshold is None else [threshold]
    if not values:
        return 0.0, 1.0
    low, high = min(0.0, *values), max(values)
    return low, high + 0.06 * (high - low or 1.0)


def _ticks_of(series: Sequence[Series], across: Scale) -> list[float]:
    known = sorted({float(x) for s in series for x in s.x})
    return known if len(known) <= 6 else find_ticks(across.low, across.high, 4)
