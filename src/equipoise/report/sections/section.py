"""A section of the page: a title, a sentence that says what is to be seen, and its content."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.report.html import Html, element, join


@dataclass(frozen=True)
class Section:
    """What the page is put together from; `name` is its address within the page."""

    name: str
    title: str
    lead: str
    body: Html

    def render(self) -> Html:
        """The section as markup."""
        return element(
            "section",
            element("h2", self.title),
            element("p", self.lead, class_="lead"),
            self.body,
            id=self.name,
        )


def frame_figure(*content: Any, title: str | None = None) -> Html:
    """A picture or table in a frame of its own."""
    heading = None if title is None else element("h3", title)
    return element("div", heading, *content, class_="figure")


def offer_choice(panels: Sequence[tuple[str, Html]], *, prefix: str, what: str) -> Html:
    """Panels of which one is shown, and buttons to choose it; on paper that one is printed."""
    if len(panels) == 1:
        return panels[0][1]
    buttons, shown = [], []
    for i, (name, content) in enumerate(panels):
        place = f"{prefix}-{i}"
        buttons.append(
            element(
                "button",
                name,
                type="button",
                aria_pressed="true" if i == 0 else "false",
                data_panel=place,
                title=name,
            )
        )
        shown.append(element("div", content, id=place, hidden=i > 0))
    choice = element("div", join(buttons), class_="choice", role="group", aria_label=what)
    return join([choice, *shown])


def list_numbers(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    n_text: int = 1,
) -> Html:
    """A plain table: the first `n_text` columns are text, the others numbers at the right."""

    def kind(place: int) -> str | None:
        return None if place < n_text else "number"

    head = [element("th", name, scope="col", class_=kind(i)) for i, name in enumerate(columns)]
    body = [
        element("tr", join(element("td", cell, class_=kind(i)) for i, cell in enumerate(row)))
        for row in rows
    ]
    table = element(
        "table",
        element("thead", element("tr", join(head))),
        element("tbody", join(body)),
        class_="plain",
    )
    return element("div", table, class_="scroll")


def fold(summary: str, *content: Any) -> Html:
    """Content behind a line to click, for who wants the numbers."""
    return element("details", element("summary", summary), *content)
