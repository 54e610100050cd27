"""The demo's pictures: batches (Figure 3), label × covariate tables, counterfactuals (Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from equipoise.data import EnvironmentDataset
from equipoise.files import write_whole
from equipoise.latent import LatentCovariateModel
from equipoise.report.images import tile, to_rgb

Ints = NDArray[np.int64]


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole, in the format that the file's ending names."""
    path = Path(path)
    with write_whole(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=110, bbox_inches="tight")


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


def draw_tables(
    before: NDArray,
    after: NDArray,
    *,
    label_names: Sequence[str],
    covariate_name: str,
) -> Figure:
    """Label × covariate, as shares of each label: of random batches and of balanced ones."""
    n_rows, n_columns = before.shape
    size = (max(6.0, 1.0 * n_columns + 3), max(2.6, 0.42 * n_rows + 1.4))
    figure = Figure(figsize=size, layout="constrained")
    for axes, title, table in zip(
        figure.subplots(1, 2), ("random batches", "balanced batches"), (before, after), strict=True
    ):
        shares = 100.0 * table / np.maximum(table.sum(axis=1, keepdims=True), 1)
        _draw_shares(axes, shares)
        axes.set_title(title)
        axes.set_xlabel(covariate_name)
        axes.set_ylabel("label")
        axes.set_xticks(np.arange(n_columns))
        axes.set_yticks(np.arange(n_rows), label_names)
    return figure


def _draw_shares(axes: Axes, shares: NDArray) -> None:
    axes.imshow(shares, vmin=0, vmax=100, cmap="Blues", aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        axes.text(
            column,
            row,
            f"{share:.0f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if share > 55 else "black",
        )


@torch.no_grad()
def draw_counterfactuals(
    model: LatentCovariateModel,
    dataset: EnvironmentDataset,
    examples: Ints,
    labels: Ints,
    environments: Ints,
) -> Figure:
    """Examples as they are, and decoded with z kept and y changed (the paper's Figure 5).

    What stays the same along a row is what z carries. `labels` and `environments` are the
    model's codes of the examples.
    """
    device = model.label_counts.device
    every = torch.arange(model.settings.n_labels, device=device)
    x = dataset.fetch(examples).to(device)
    y, e = torch.from_numpy(labels).to(device), torch.from_numpy(environments).to(device)
    z, _ = model.encode(x, y, e)
    rows = []
    for i in range(len(examples)):
        changed = model.decode(z[i].expand(len(every), -1), every)
        rows.append(to_rgb(torch.cat([x[i : i + 1], changed])))
    n_columns = 1 + len(every)
    size = (0.62 * n_columns + 1, 0.62 * len(examples) + 1)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.imshow(tile(np.concatenate(rows), n_columns), interpolation="nearest")
    side = dataset.input_shape[1] + 2
    axes.set_xticks(
        np.arange(n_columns) * side + side / 2,
        ["example", *(f"y={n}" for n in dataset.label_names)],
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_yticks(
        np.arange(len(examples)) * side + side / 2, [f"y={dataset.label_names[k]}" for k in labels]
    )
    axes.spines[:].set_visible(False)
    return figure
