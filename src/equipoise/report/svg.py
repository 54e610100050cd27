"""Pictures on the page: fluid SVG in the page's colours, and tables. x in percent, y in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report import pictures as pic
from equipoise.report.html import Html, element, join


@dataclass(frozen=True)
class _Plane:
    """Where the values of a panel stand in its drawing."""

    panel: pic.Panel
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

    def path(self, kind: str, steps: str) -> Html:
        """A part with coordinates of its own, 0…1000 either way, stretched to fit."""
        return element(
            "svg",
            element("path", class_=kind, d=steps),
            x=_percent(self.left),
            y=float(self.top),
            width=_percent(self.right - self.left),
            height=float(self.depth),
            viewBox="0 0 1000 1000",
            preserveAspectRatio="none",
            overflow="visible",
            aria_hidden="true",
        )

    def segment(self, kind: str, x1: float, x2: float, y1: float, y2: float) -> Html:
        ends = {"x1": self.across(x1), "x2": self.across(x2)}
        return element("line", class_=kind, **ends, y1=self.down(y1), y2=self.down(y2))

    def rule(self, kind: str, y: float) -> Html:
        ends = {"x1": _percent(self.left), "x2": _percent(self.right)}
        return element("line", class_=kind, **ends, y1=y, y2=y)


def render_panel(panel: pic.Panel, *, legend: bool = True) -> Html:
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


def render_legend(marks: Sequence[pic.Mark]) -> Html | None:
    """Names beside the mark they belong to."""
    named = {m.name: m for m in sorted(marks, key=lambda m: isinstance(m, pic.Level)) if m.name}
    items = [
        element("span", element("i", class_=f"key {_name_key(mark)}"), name, class_="entry")
        for name, mark in named.items()
    ]
    return element("p", join(items), class_="legend") if items else None


def _name_key(mark: pic.Mark) -> str:
    match mark:
        case pic.Points():
            return f"{'ring' if mark.ring else 'dot'} {mark.kind}"
        case pic.Stairs():
            return f"{'fill' if mark.fill else 'outline'} {mark.kind}"
        case pic.Bars():
            return f"fill {mark.kind}"
        case pic.Line():
            return f"bar {mark.kind}"
    return "dash"


def _draw_axes(plane: _Plane, height: float) -> list[Html]:
    panel, shapes = plane.panel, []
    for value, text in panel.y.ticks:
        y, side = plane.down(value), _percent(plane.left - 1.5)
        shapes.append(plane.rule("grid", y))
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
        place = {"x": _percent(plane.right), "y": height - 4, "text_anchor": "end"}
        shapes.append(element("text", panel.x.name, class_="axis", **place))
    return shapes


def _draw_mark(mark: pic.Mark, plane: _Plane) -> list[Html]:
    match mark:
        case pic.Line():
            return [plane.path(f"curve {mark.kind}", _trace(mark, plane))]
        case pic.Stairs():
            ends = [(mark.x[0], 0.0), (mark.x[-1], 0.0)]
            steps = [(mark.x[i + side], y) for i, y in enumerate(mark.y) for side in (0, 1)]
            drawn = "L".join(plane.inner(x, y) for x, y in (ends[0], *steps, ends[1]))
            return [plane.path(f"area {mark.kind}{' fill' if mark.fill else ''}", "M" + drawn)]
        case pic.Level():
            kind = "threshold" if mark.dashed else "zero"
            if not mark.upwards:
                return [plane.rule(kind, plane.down(mark.value))]
            x, bottom = plane.across(mark.value), plane.top + plane.depth
            return [element("line", class_=kind, x1=x, x2=x, y1=plane.top, y2=bottom)]
        case pic.Ways():
            ways = zip(mark.start, mark.end, mark.y, strict=True)
            return [plane.segment("way", a, b, y, y) for a, b, y in ways if not math.isnan(a + b)]
        case pic.Bars():
            return _draw_bars(mark, plane)
        case pic.Points():
            return _draw_points(mark, plane)


def _draw_points(mark: pic.Points, plane: _Plane) -> list[Html]:
    shapes = []
    for i, (x, y) in enumerate(zip(mark.x, mark.y, strict=True)):
        if math.isnan(x) or math.isnan(y):
            continue
        parts: list[Any] = [element("title", mark.told[i]) if mark.told else None]
        if mark.x_error is not None and math.isfinite(mark.x_error[i]):
            ends = x - mark.x_error[i], x + mark.x_error[i]
            parts.append(plane.segment(f"error {mark.kind}", *ends, y, y))
        kind = f"{'ring' if mark.ring else 'dot'} {mark.kind}"
        place = {"cx": plane.across(x), "cy": plane.down(y)}
        parts.append(element("circle", class_=kind, **place, r=mark.size))
        if mark.labels:
            above = {"x": place["cx"], "y": plane.down(y) - 9, "text_anchor": "middle"}
            parts.append(element("text", mark.labels[i], class_=f"value {mark.kind}", **above))
        shapes.append(element("g", *parts))
    return shapes


def _draw_bars(mark: pic.Bars, plane: _Plane) -> list[Html]:
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
    return shapes


def _trace(line: pic.Line, plane: _Plane) -> str:
    """A path that begins anew after every gap."""
    steps, pen = "", "M"
    for x, y in zip(line.x, line.y, strict=True):
        known = math.isfinite(y)
        steps += pen + plane.inner(x, y) if known else ""
        pen = "L" if known else "M"
    return steps


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def render_heat(heat: pic.Heat) -> Html:
    """A table whose cells are tinted by their size."""
    body = []
    for i in range(len(heat.rows)):
        row = []
        for j, value in enumerate(heat.cells[i].tolist()):
            tint = min(abs(value) / heat.full, 1.0) if math.isfinite(value) else 0.0
            own = "own" if heat.mark_diagonal and i == j else ""
            kind = f"{own} {'negative' if value < 0 else ''}".strip() or None
            row.append(element("td", heat.write(value), style=f"--t:{tint:.3f}", class_=kind))
        body.append(row)
    caption = element("p", heat.title, class_="caption")  # wider than a small table may be
    corner = element("th", heat.y_name, scope="col", class_="corner")
    table = render_table(corner, heat.columns, heat.rows, body, class_=f"heat {heat.kind}")
    return scroll(caption, table, label=heat.title)


def render_images(table: pic.ImageTable) -> Html:
    """Images in rows and columns; the own one of a row is framed."""
    sharp = "pixel" if pic.is_small(table.images.shape[1:3]) else None
    body = []
    for i in range(len(table.rows)):
        row = []
        for j in range(len(table.columns)):
            source = pic.encode_image(table.images[i * len(table.columns) + j])
            kind = None
            if table.own:
                kind = "own" if table.own[i] == j else "first" if j == 0 else None
            row.append(element("td", element("img", src=source, alt="", class_=sharp), class_=kind))
        body.append(row)
    rows = render_table(element("th"), table.columns, table.rows, body, class_="pictures")
    return scroll(rows, label=table.title)


def render_table(
    corner: Html,
    columns: Sequence[str],
    rows: Sequence[str],
    cells: Sequence[Sequence[Html]],
    *,
    class_: str,
) -> Html:
    """A table of cells that are markup already, with names cut where long and whole on hover."""

    def head(name: str, scope: str) -> Html:
        return element("th", element("span", name), scope=scope, title=name)

    top = element("tr", corner, *(head(name, "col") for name in columns))
    body = [element("tr", head(name, "row"), *own) for name, own in zip(rows, cells, strict=True)]
    return element("table", element("thead", top), element("tbody", *body), class_=class_)


def scroll(*content: Any, label: str) -> Html:
    """A region that scrolls sideways where the screen is narrow, by keyboard as well."""
    return element("div", *content, class_="scroll", tabindex="0", role="region", aria_label=label)
