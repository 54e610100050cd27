"""Pictures on the page: fluid SVG in the page's colours, and tables. x in percent, y in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report.html import Html, element, join
from equipoise.report.pictures import (
    Bars,
    Heat,
    ImageTable,
    Level,
    Line,
    Mark,
    Panel,
    Points,
    Stairs,
    Ways,
    encode_image,
    is_small,
)


@dataclass(frozen=True)
class _Plane:
    """Where the values of a panel stand in its drawing."""

    panel: Panel
    left: float
    right: float
    top: float
    depth: float

    def across(self, x: float) -> str:
        return _percent(self.left + self.panel.x.place(x) * (self.right - self.left))

    def down(self, y: float) -> float:
        share = self.panel.y.place(y)
        return self.top + self.depth * (share if self.panel.rows else 1 - share)

    def inner(self, x: float, y: float) -> str:
        """The same in a frame of 1000 × 1000, where curves are traced."""
        down = 1000 * (self.down(y) - self.top) / self.depth
        return f"{1000 * self.panel.x.place(x):.1f} {down:.1f}"


def render_panel(panel: Panel, *, legend: bool = True) -> Html:
    """A legend, the names of rows at the left, and the drawing."""
    if panel.rows:
        plane = _Plane(panel, 1.5, 98.5, 0.0, panel.height * len(panel.rows))
    elif panel.y.ticks:
        plane = _Plane(panel, 11.0, 97.0, 14.0, panel.height - 52.0)
    else:
        plane = _Plane(panel, 2.0, 98.0, 8.0, panel.height - 34.0)
    height = plane.top + plane.depth + (38.0 if panel.x.name else 26.0)
    drawn = element(
        "svg",
        element("title", panel.title),
        *_draw_axes(plane, height),
        *(shape for mark in panel.marks for shape in _draw_mark(mark, plane)),
        class_="chart",
        role="img",
        aria_label=panel.title,
        width="100%",
        height=float(height),
    )
    if panel.rows:
        names = [element("span", name, title=name) for name in panel.rows]
        side = element("div", join(names), class_="row-names", style=f"--row:{panel.height:g}px")
        drawn = element("div", side, drawn, class_="named-rows")
    return join([render_legend(panel.marks) if legend else None, drawn])


def render_legend(marks: Sequence[Mark]) -> Html | None:
    """Names beside the mark they belong to."""
    ordered = sorted(marks, key=lambda mark: isinstance(mark, Level))
    named = {m.name: m for m in ordered if not isinstance(m, Ways) and m.name}
    if not named:
        return None
    items = [
        element("span", element("i", class_=f"key {_name_key(mark)}"), name, class_="entry")
        for name, mark in named.items()
    ]
    return element("p", join(items), class_="legend")


def _name_key(mark: Mark) -> str:
    match mark:
        case Points(ring=ring):
            return f"{'ring' if ring else 'dot'} {mark.kind}"
        case Stairs(fill=fill):
            return f"{'fill' if fill else 'outline'} {mark.kind}"
        case Level():
            return "dash"
        case Bars():
            return f"fill {mark.kind}"
    return f"bar {getattr(mark, 'kind', '')}"


def _draw_axes(plane: _Plane, height: float) -> list[Html]:
    panel, shapes = plane.panel, []
    for value, text in panel.y.ticks:
        y = plane.down(value)
        shapes.append(_rule("grid", plane, y))
        side = _percent(plane.left - 1.5)
        shapes.append(element("text", text, class_="tick", x=side, y=y + 4, text_anchor="end"))
    bottom = plane.top + plane.depth
    for i, (value, text) in enumerate(panel.x.ticks):
        x, share = plane.across(value), panel.x.place(value)
        if panel.rows:
            shapes.append(element("line", class_="grid", x1=x, x2=x, y1=0, y2=bottom))
        anchor = "start" if share < 0.02 and not panel.y.ticks else "middle"
        anchor = "end" if share > 0.98 and i and not panel.y.ticks else anchor
        shapes.append(element("text", text, class_="tick", x=x, y=bottom + 16, text_anchor=anchor))
    if panel.x.name:
        end = _percent(plane.right)
        shapes.append(
            element("text", panel.x.name, class_="axis", x=end, y=height - 4, text_anchor="end")
        )
    return shapes


def _draw_mark(mark: Mark, plane: _Plane) -> list[Html]:
    match mark:
        case Line():
            return [
                _inner(plane, element("path", class_=f"curve {mark.kind}", d=_trace(mark, plane)))
            ]
        case Stairs():
            kind = f"area {mark.kind}{' fill' if mark.fill else ''}"
            return [_inner(plane, element("path", class_=kind, d=_trace_stairs(mark, plane)))]
        case Level(upwards=True):
            x, bottom = plane.across(mark.value), plane.top + plane.depth
            kind = "threshold" if mark.dashed else "zero"
            return [element("line", class_=kind, x1=x, x2=x, y1=plane.top, y2=bottom)]
        case Level():
            return [_rule("threshold" if mark.dashed else "zero", plane, plane.down(mark.value))]
        case Ways():
            return [
                _segment("way", plane, a, b, y, y)
                for a, b, y in zip(mark.start, mark.end, mark.y, strict=True)
                if not math.isnan(a + b)
            ]
        case Bars():
            return _draw_bars(mark, plane)
        case Points():
            return _draw_points(mark, plane)


def _draw_points(mark: Points, plane: _Plane) -> list[Html]:
    shapes = []
    for i, (x, y) in enumerate(zip(mark.x, mark.y, strict=True)):
        if math.isnan(x) or math.isnan(y):
            continue
        told = element("title", mark.told[i]) if mark.told else None
        parts: list[Any] = []
        if mark.x_error is not None and math.isfinite(mark.x_error[i]):
            error = mark.x_error[i]
            parts.append(_segment(f"error {mark.kind}", plane, x - error, x + error, y, y))
        if mark.y_error is not None and math.isfinite(mark.y_error[i]):
            error = mark.y_error[i]
            parts.append(_segment(f"error {mark.kind}", plane, x, x, y - error, y + error))
        kind = f"{'ring' if mark.ring else 'dot'} {mark.kind}"
        place = {"cx": plane.across(x), "cy": plane.down(y)}
        parts.append(element("circle", class_=kind, **place, r=mark.size))
        if mark.labels:
            above = {"x": place["cx"], "y": plane.down(y) - 9, "text_anchor": "middle"}
            parts.append(element("text", mark.labels[i], class_=f"value {mark.kind}", **above))
        shapes.append(element("g", told, *parts))
    return shapes


def _draw_bars(mark: Bars, plane: _Plane) -> list[Html]:
    shapes = []
    floor = plane.down(0.0)
    for i, (x, y) in enumerate(zip(mark.x, mark.y, strict=True)):
        if not math.isfinite(y):
            continue
        left, right = (plane.panel.x.place(x + side * mark.width / 2) for side in (-1, 1))
        bar = element(
            "rect",
            element("title", mark.told[i]) if mark.told else None,
            class_=f"bar {mark.kind}",
            x=plane.across(x - mark.width / 2),
            width=_percent((right - left) * (plane.right - plane.left)),
            y=min(plane.down(y), floor),
            height=max(abs(floor - plane.down(y)), 1.0 if y else 0.0),
            rx=2,
        )
        shapes.append(bar)
        if mark.error is not None and math.isfinite(mark.error[i]):
            error = mark.error[i]
            shapes.append(_segment("error", plane, x, x, y - error, y + error))
    return shapes


def _segment(kind: str, plane: _Plane, x1: float, x2: float, y1: float, y2: float) -> Html:
    ends = {"x1": plane.across(x1), "x2": plane.across(x2)}
    return element("line", class_=kind, **ends, y1=plane.down(y1), y2=plane.down(y2))


def _rule(kind: str, plane: _Plane, y: float) -> Html:
    ends = {"x1": _percent(plane.left), "x2": _percent(plane.right)}
    return element("line", class_=kind, **ends, y1=y, y2=y)


def _inner(plane: _Plane, shape: Html) -> Html:
    """A part with coordinates of its own, 0…1000 either way, stretched to fit."""
    return element(
        "svg",
        shape,
        x=_percent(plane.left),
        y=float(plane.top),
        width=_percent(plane.right - plane.left),
        height=float(plane.depth),
        viewBox="0 0 1000 1000",
        preserveAspectRatio="none",
        overflow="visible",
        aria_hidden="true",
    )


def _trace(line: Line, plane: _Plane) -> str:
    """A path that begins anew after every gap."""
    steps, pen = [], "M"
    for x, y in zip(line.x, line.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        steps.append(pen + plane.inner(x, y))
        pen = "L"
    return "".join(steps)


def _trace_stairs(stairs: Stairs, plane: _Plane) -> str:
    steps = ["M" + plane.inner(stairs.edges[0], 0.0)]
    for i, height in enumerate(stairs.heights):
        steps += ["L" + plane.inner(stairs.edges[i + side], height) for side in (0, 1)]
    return "".join([*steps, "L" + plane.inner(stairs.edges[-1], 0.0)])


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def render_heat(heat: Heat) -> Html:
    """A table whose cells are tinted by their size."""
    head = [element("th", heat.y_name, scope="col", class_="corner")]
    head += [name_cell(name, "col") for name in heat.columns]
    body = []
    for i, name in enumerate(heat.rows):
        row = [name_cell(name, "row")]
        for j, value in enumerate(heat.cells[i].tolist()):
            tint = min(abs(value) / heat.full, 1.0) if math.isfinite(value) else 0.0
            own = "own" if heat.mark_diagonal and i == j else ""
            kind = f"{own} {'negative' if value < 0 else ''}".strip() or None
            row.append(element("td", heat.write(value), style=f"--t:{tint:.3f}", class_=kind))
        body.append(row)
    caption = element("p", heat.title, class_="caption")  # wider than a small table may be
    table = render_table(head, body, class_=f"heat {heat.kind}")
    return scroll(caption, table, label=heat.title)


def render_images(table: ImageTable) -> Html:
    """Images in rows and columns; the own one of a row is framed."""
    head = [element("th"), *(name_cell(name, "col") for name in table.columns)]
    sharp = "pixel" if is_small(table.images.shape[1:3]) else None
    body = []
    for i, name in enumerate(table.rows):
        row = [name_cell(name, "row")]
        for j in range(len(table.columns)):
            source = encode_image(table.images[i * len(table.columns) + j])
            kind = None
            if table.own:
                kind = "own" if table.own[i] == j else "first" if j == 0 else None
            row.append(element("td", element("img", src=source, alt="", class_=sharp), class_=kind))
        body.append(row)
    return scroll(render_table(head, body, class_="pictures"), label=table.title)


def render_table(head: Sequence[Html], body: Sequence[Sequence[Html]], *, class_: str) -> Html:
    """A table of cells that are markup already."""
    rows = join(element("tr", join(row)) for row in body)
    top = element("thead", element("tr", join(head)))
    return element("table", top, element("tbody", rows), class_=class_)


def name_cell(name: str, scope: str) -> Html:
    """The head of a row or column, cut where it is long and whole on hover."""
    return element("th", element("span", name), scope=scope, title=name)


def scroll(*content: Any, label: str) -> Html:
    """A region that scrolls sideways where the screen is narrow, by keyboard as well."""
    return element("div", *content, class_="scroll", tabindex="0", role="region", aria_label=label)
