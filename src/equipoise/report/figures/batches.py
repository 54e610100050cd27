"""Batches of both kinds side by side (the paper's Figure 3)."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from equipoise.data import EnvironmentDataset
from equipoise.report.images import tile, to_rgb

Ints = NDArray[np.int64]


def draw_batches(
    dataset: EnvironmentDataset, random_batch: Ints, balanced_batch: Ints, *, n_columns: int = 10
) -> Figure:
    """A random and a balanced batch side by side, a row for each label (the paper's Figure 3)."""
    figure = Figure(figsize=(11, 0.5 * dataset.n_labels + 1.2), layout="constrained")
    titles = ("a random batch", "a balanced batch")
    for axes, title, batch in zip(
        figure.subplots(1, 2), titles, (random_batch, balanced_batch), strict=True
    ):
        rows = []
        for label in range(dataset.n_labels):
            members = batch[dataset.labels[batch] == label][:n_columns]
            pictures = np.ones((n_columns, *dataset.input_shape[1:], 3))
            if len(members):
                pictures[: len(members)] = to_rgb(dataset.fetch(members))
            rows.append(pictures)
        axes.imshow(tile(np.concatenate(rows), n_columns), interpolation="nearest")
        side = dataset.input_shape[1] + 2
        axes.set_yticks(np.arange(dataset.n_labels) * side + side / 2, dataset.label_names)
        axes.set_xticks([])
        axes.set_ylabel("label")
        axes.set_title(title)
        axes.spines[:].set_visible(False)
    return figure
