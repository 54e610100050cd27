"""Anchors with their matches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from equipoise.data import Source
from equipoise.report.anchors import ShownAnchor
from equipoise.report.figures.picture_table import draw_picture_table
from equipoise.report.pictures import Brightness, make_pictures


def draw_gallery(
    anchors: Sequence[ShownAnchor], source: Source, label_names: Sequence[str], own: Sequence[str]
) -> Figure:
    """A row for each anchor: itself, then its nearest match of each label; blank for none.

    `own` names the label of each anchor.
    """
    shown = np.array(
        [
            row
            for anchor in anchors
            for row in (anchor.example, *_nearest_by_label(anchor, len(label_names)))
        ]
    )
    x = source.fetch(np.where(shown < 0, 0, shown))
    pictures = make_pictures(x, Brightness.of(x))
    pictures[shown < 0] = 1.0
    columns = ["anchor", *(f"y={name}" for name in label_names)]
    return draw_picture_table(pictures, columns, [f"y={name}" for name in own])


def _nearest_by_label(anchor: ShownAnchor, n_labels: int) -> list[int]:
    nearest = [-1] * n_labels
    for match in reversed(anchor.matches):  # nearest last, so that it stays
        nearest[match.label] = match.example
    return nearest
