"""Markup that escapes by itself: only what is `Html` already goes into a page as it is."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

_VOID = frozenset({"br", "img", "meta"})


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
    return f' {name}="{html.escape(_number(value), quote=True)}"'


def _number(value: Any) -> str:
    """Coordinates with two decimals at most: pages stay small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


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
