"""Validation accuracy against out-of-domain accuracy, a point for every checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from equipoise.report.palette import LIGHT

COLORS = {"balanced": LIGHT["after"], "train-domain": LIGHT["before"]}
MARKERS = {"random": "x", "balanced": "o"}


@dataclass(frozen=True)
class ValidationPoint:
    """What a rule's validation said at a checkpoint, and what was true; shares from 0 to 1."""

    dataset: str
    sampling: str
    algorithm: str
    seed: int
    step: int
    selection: str
    validation_accuracy: float
    ood_accuracy: float


def draw_validation(points: Sequence[ValidationPoint]) -> Figure:
    """A panel for each dataset: on the diagonal, validation says what is true elsewhere."""
    datasets = list(dict.fromkeys(point.dataset for point in points))
    figure = Figure(figsize=(4.6 * max(1, len(datasets)), 4.4), layout="constrained")
    panels = figure.subplots(1, max(1, len(datasets)), squeeze=False, sharey=True)[0]
    for axes, dataset in zip(panels, datasets, strict=False):
        for rule, color in COLORS.items():
            for sampling, marker in MARKERS.items():
                shown = [
                    p
                    for p in points
                    if (p.dataset, p.selection, p.sampling) == (dataset, rule, sampling)
                ]
                if shown:
                    axes.scatter(
                        [100 * p.validation_accuracy for p in shown],
                        [100 * p.ood_accuracy for p in shown],
                        s=16,
                        marker=marker,
                        color=color,
                        alpha=0.6,
                        label=f"{rule} validation, {sampling} batches",
                    )
        axes.plot([0, 100], [0, 100], color=LIGHT["faint"], linewidth=0.8)
        axes.set(xlim=(0, 100), ylim=(0, 100), title=dataset, aspect="equal")
        axes.set_xlabel("validation accuracy, %")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("out-of-domain accuracy, %")
    if points:
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure
