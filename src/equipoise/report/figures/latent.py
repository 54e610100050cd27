"""What z carries: counterfactuals (the paper's Figure 5), traversals, effects on features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from equipoise.data import EnvironmentDataset
from equipoise.latent import LatentCovariateModel
from equipoise.report.figures.picture_table import draw_picture_table
from equipoise.report.figures.style import make_panels, shorten
from equipoise.report.latent_views import (
    Counterfactuals,
    FeatureEffects,
    Traversals,
    decode_counterfactuals,
    write_offset,
)
from equipoise.report.pictures import Brightness, make_pictures

Ints = NDArray[np.int64]


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
    found = decode_counterfactuals(model, dataset, examples, labels, environments)
    return draw_decoded(found, [dataset.label_names[k] for k in labels], dataset.label_names)


def draw_decoded(found: Counterfactuals, own: Sequence[str], label_names: Sequence[str]) -> Figure:
    """The same of counterfactuals that are there; `own` names each example's label."""
    both = torch.cat([found.originals[:, None], found.decoded], dim=1).flatten(0, 1)
    pictures = make_pictures(both, Brightness.of(found.originals))
    columns = ["example", *(f"y={name}" for name in label_names)]
    return draw_picture_table(pictures, columns, [f"y={name}" for name in own])


def draw_traversals(found: Traversals, originals: torch.Tensor) -> Figure:
    """One z moved at a time; `originals` say what is black and what is white."""
    pictures = make_pictures(found.decoded.flatten(0, 1), Brightness.of(originals))
    columns = [write_offset(offset) for offset in found.offsets]
    return draw_picture_table(pictures, columns, [f"z{i + 1}" for i in found.dimensions])


def draw_effects(
    effects: FeatureEffects, feature_names: Sequence[str], label_names: Sequence[str]
) -> Figure:
    """What label and z do to the features of a table, in their standard deviations."""
    figure, (left, right) = make_panels(2, 2, 4.4, 0.32 * len(feature_names) + 1.6)
    columns = (label_names, [f"z{i + 1}" for i in range(effects.by_z.shape[1])])
    titles = ("z kept, y changed", "y kept, one z from −1 to +1 SD")
    for axes, table, names, title in zip(
        (left, right), (effects.by_label, effects.by_z), columns, titles, strict=True
    ):
        axes.imshow(table, cmap="BrBG", vmin=-2, vmax=2, aspect="auto")
        axes.set_xticks(range(len(names)), shorten(list(names), 10), rotation=45, ha="right")
        axes.set_yticks(range(len(feature_names)), shorten(list(feature_names)))
        for (row, column), value in np.ndenumerate(table):
            axes.text(column, row, f"{value:.1f}", ha="center", va="center", fontsize=7)
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set_visible(False)
        axes.set_title(title, fontsize=9)
    return figure
