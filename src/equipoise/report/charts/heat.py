"""Tables whose cells are tinted by their share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from equipoise.report.html import Html, element, join


def draw_heat(
    cells: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    caption: str,
    corner: str = "",
    kind: str = "after",
    write: Callable[[float], str] = lambda share: f"{100 * share:.0f}",
    full: float = 1.0,
    mark_diagonal: bool = False,
) -> Html:
    """A table of numbers, tinted from nothing at 0 to fully at ±`full`."""
    head = [element("th", corner, scope="col", class_="corner")]
    head += [element("th", element("span", name), scope="col", title=name) for name in columns]
    body = []
    for i, name in enumerate(rows):
        row = [element("th", element("span", name), scope="row", title=name)]
        for j, value in enumerate(cells[i].tolist()):
            tint = min(abs(value) / full, 1.0) if np.isfinite(value) else 0.0
            classes = "own" if mark_diagonal and i == j else None
            if value < 0:
                classes = f"{classes or ''} negative".strip()
            row.append(element("td", write(value), style=f"--t:{tint:.3f}", class_=classes))
        body.append(element("tr", join(row)))
    return element(
        "div",
        element("p", caption, class_="caption"),  # wider than a small table may be
        element(
            "table",
            element("thead", element("tr", join(head))),
            element("tbody", join(body)),
            class_=f"heat {kind}",
        ),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label=caption,
    )
