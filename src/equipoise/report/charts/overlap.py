"""Overlap of two labels: their propensity scores, one label above the line, one below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.report.charts.frame import Scale, draw_chart, draw_inner, percent
from equipoise.report.html import Html, element

Floats = NDArray[np.float64]

HEIGHT, MIDDLE, DEPTH = 158.0, 70.0, 62.0
SIDES = (1, -1, 1, -1)  # above and below the line, after and before


@dataclass(frozen=True)
class PairOverlap:
    """Shares [bins] of two labels' examples over p(first | z, one of the two), from 0 to 1."""

    first: str
    second: str
    first_before: Floats
    second_before: Floats
    first_after: Floats
    second_after: Floats


def draw_overlap(pair: PairOverlap) -> Html:
    """Before as an outline, after filled: where labels overlap, the halves mirror each other.

    Heights are square roots of shares, so that what is spread thin can be seen beside a peak.
    """
    across = Scale(0.0, 1.0, left=2.0, right=98.0)
    parts = (pair.first_after, pair.second_after, pair.first_before, pair.second_before)
    highest = max(float(part.max(initial=0.0)) for part in parts) or 1.0
    kinds = ("after", "after", "before", "before")
    areas = [
        element("path", class_=f"area {kind}", d=_trace(np.sqrt(part / highest), side))
        for kind, part, side in zip(kinds, parts, SIDES, strict=True)
    ]
    n_bins = len(pair.first_before)
    shapes = [
        draw_inner(across, MIDDLE - DEPTH, 2 * DEPTH, *areas, width=n_bins, depth=2000),
        element("line", class_="zero", x1="2%", x2="98%", y1=MIDDLE, y2=MIDDLE),
    ]
    for tick, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = percent(across.place(tick))
        name = f"{tick:g}"
        shapes.append(element("text", name, class_="tick", x=x, y=HEIGHT - 3, text_anchor=anchor))
    title = f"Scores of {pair.first} (above) and {pair.second} (below), before and after"
    return element(
        "figure",
        element(
            "figcaption",
            element("span", "above ", element("b", pair.first), title=pair.first),
            element("span", "below ", element("b", pair.second), title=pair.second),
        ),
        draw_chart(title, HEIGHT, *shapes, class_="overlap"),
        class_="pair",
    )


def _trace(heights: Floats, side: int) -> str:
    """Stairs over the bins, in a frame whose middle line is at 1000."""
    steps = ["M0 1000"]
    for i, height in enumerate(heights.tolist()):
        y = 1000 - side * 1000 * height
        steps.append(f"L{i} {y:.0f}L{i + 1} {y:.0f}")
    return "".join([*steps, f"L{len(heights)} 1000"])
