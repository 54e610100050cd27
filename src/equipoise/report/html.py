"""Markup that escapes by itself, the colours of the page, and the blocks it is built from."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

_VOID = frozenset({"br", "img", "meta"})

# Each colour on a light and on a dark page.
COLORS: Mapping[str, tuple[str, str]] = {
    "paper": ("#fbfaf7", "#14171b"),
    "card": ("#ffffff", "#1b1f24"),
    "ink": ("#1d2126", "#e9e7e2"),
    "soft": ("#5b636d", "#a7adb5"),
    "faint": ("#8b929b", "#79818b"),
    "rule": ("#e4e1d9", "#2d333a"),
    "grid": ("#eceae4", "#262b31"),
    "before": ("#c2701c", "#e39a4f"),
    "after": ("#0b7a75", "#4fc3b8"),
    "third": ("#5a4fb0", "#a99ef0"),
    "good": ("#0b7a75", "#4fc3b8"),
    "fair": ("#9a6a00", "#e0b04a"),
    "poor": ("#b3372b", "#f08273"),
    "heat": ("11 122 117", "79 195 184"),
    "heat-before": ("194 112 28", "227 154 79"),
    "shadow": ("0 1px 2px rgb(30 30 20 / .05), 0 6px 24px rgb(30 30 20 / .05)", "none"),
}
LIGHT: Mapping[str, str] = {name: light for name, (light, _) in COLORS.items()}


def write_theme() -> str:
    """The colours as CSS variables: the system's choice, the reader's, and paper when printed."""
    light, dark = (
        f"color-scheme:{scheme};" + ";".join(f"--{name}:{pair[i]}" for name, pair in COLORS.items())
        for i, scheme in enumerate(("light", "dark"))
    )
    return (
        f":root{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}"
    )


class Html(str):
    """Text that is markup. Everything else is escaped before it enters a page."""

    __slots__ = ()


def escape(value: Any) -> Html:
    """Any value as text of a page; `Html` stays as it is, None is nothing.

    >>> escape("<b>"), escape(Html("<b>"))
    ('&lt;b&gt;', '<b>')
    """
    if isinstance(value, Html):
        return value
    return Html("" if value is None else html.escape(str(value), quote=True))


def join(parts: Iterable[Any]) -> Html:
    """Parts one after the other, each escaped unless it is markup."""
    return Html("".join(escape(part) for part in parts))


def element(name: str, /, *children: Any, **attributes: Any) -> Html:
    """One element. `class_` stands for class, `aria_label` for aria-label; None is left out.

    >>> element("p", "a < b", class_="note", hidden=None)
    '<p class="note">a &lt; b</p>'
    >>> element("img", src="x.png", alt="")
    '<img src="x.png" alt="">'
    """
    opened = name + "".join(_write_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Html(f"<{opened}>")
    return Html(f"<{opened}>{join(children)}</{name}>")


def _write_attribute(key: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    # Coordinates have two decimals at most: pages stay small.
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text, quote=True)}"'


def embed_json(name: str, content: Any) -> Html:
    """Data for the page's script, as an element that no text in it can end.

    >>> embed_json("names", ["</script>"])
    '<script type="application/json" id="names">["\\\\u003c/script\\\\u003e"]</script>'
    """
    text = json.dumps(_finite(content), allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return element("script", Html(text), type="application/json", id=name)


def _finite(content: Any) -> Any:
    """JSON has no infinity: what is not a number becomes null."""
    if isinstance(content, float):
        return content if math.isfinite(content) else None
    if isinstance(content, Mapping):
        return {str(key): _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return content


@dataclass(frozen=True)
class Section:
    """A part of the page: its address within the page, a title, what is to be seen, the content."""

    name: str
    title: str
    lead: str
    body: Html

    def render(self) -> Html:
        """The section as markup."""
        lead = element("p", self.lead, class_="lead")
        return element("section", element("h2", self.title), lead, self.body, id=self.name)


def frame_figure(*content: Any, title: str | None = None) -> Html:
    """A picture or table in a frame of its own."""
    heading = None if title is None else element("h3", title)
    return element("div", heading, *content, class_="figure")


def write_note(text: str | None) -> Html | None:
    """Small print below a figure."""
    return element("p", text, class_="note") if text else None


def list_sentences(title: str, sentences: Sequence[str]) -> Html | None:
    """Sentences with a bullet each below a title; None where there are none."""
    items = (element("li", sentence) for sentence in sentences)
    return join([element("h3", title), element("ul", *items)]) if sentences else None


def show_facts(facts: Iterable[tuple[str, Any, str]]) -> Html:
    """Cards of a few numbers: name, value, and a note below."""
    cards = [
        element("div", element("dt", name), element("dd", value, note and element("small", note)))
        for name, value, note in facts
    ]
    return element("dl", join(cards), class_="figures")


def offer_environments(panels: Sequence[tuple[str, Html]], *, prefix: str) -> Html:
    """Panels of which one is shown, and buttons to choose it; on paper that one is printed."""
    if len(panels) == 1:
        return panels[0][1]
    buttons, shown = [], []
    for i, (name, content) in enumerate(panels):
        place, state = f"{prefix}-{i}", {"aria_pressed": "true" if i == 0 else "false"}
        buttons.append(
            element("button", name, type="button", **state, data_panel=place, title=name)
        )
        shown.append(element("div", content, id=place, hidden=i > 0))
    choice = element("div", join(buttons), class_="choice", role="group", aria_label="Environment")
    return join([choice, *shown])


def list_numbers(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, n_text: int = 1) -> Html:
    """A plain table: the first `n_text` columns are text, the others numbers at the right."""

    kinds = [None if place < n_text else "number" for place in range(len(columns))]

    def line(name: str, cells: Sequence[Any], **attributes: Any) -> Html:
        pairs = zip(cells, kinds, strict=True)
        return element("tr", *(element(name, c, **attributes, class_=kind) for c, kind in pairs))

    top = element("thead", line("th", columns, scope="col"))
    body = element("tbody", *(line("td", row) for row in rows))
    table = element("table", top, body, class_="plain")
    return element("div", table, class_="scroll")


# Column of a DataFrame -> its heading on the page and how its values are written.
Columns = Mapping[str, tuple[str, Callable[[Any], str]]]


def list_columns(table: pd.DataFrame, columns: Columns, *, n_text: int = 1) -> Html:
    """Some columns of a DataFrame as a plain table."""
    cells = [[write(value) for value in table[name]] for name, (_, write) in columns.items()]
    heads = [heading for heading, _ in columns.values()]
    return list_numbers(heads, zip(*cells, strict=True), n_text=n_text)


def fold(summary: str, *content: Any) -> Html:
    """Content behind a line to click, for who wants the numbers."""
    return element("details", element("summary", summary), *content)
