"""Table 1 as a picture: bars of every cell, the paper's number as a line across each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from equipoise.benchmark.result_table import summarise
from equipoise.benchmark.selected_runs import SelectedRun
from equipoise.paper import find_accuracy
from equipoise.report.palette import LIGHT

COLORS = {"random": LIGHT["before"], "balanced": LIGHT["after"], "oracle": LIGHT["third"]}
WIDTH = 0.38


def draw_bars(
    chosen: Sequence[SelectedRun], *, selection: str = "balanced", ceiling: float | None = None
) -> Figure:
    """A panel for each dataset, a group of bars for each algorithm, a bar for each sampling."""
    shown = [run for run in chosen if run.selection == selection]
    datasets = list(dict.fromkeys(run.dataset for run in shown))
    figure = Figure(figsize=(5.2 * max(1, len(datasets)), 3.8), layout="constrained")
    panels = figure.subplots(1, max(1, len(datasets)), sharey=True, squeeze=False)[0]
    for axes, dataset in zip(panels, datasets, strict=False):
        _draw_panel(axes, [run for run in shown if run.dataset == dataset])
        axes.set_title(dataset)
        if ceiling is not None:
            axes.axhline(ceiling, color="black", linewidth=0.8, linestyle=":")
    panels[0].set_ylabel("out-of-domain accuracy, %")
    figure.suptitle(f"checkpoints by {selection} validation", fontsize=9, color=LIGHT["soft"])
    if shown:
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    return figure


def _draw_panel(axes: Axes, runs: Sequence[SelectedRun]) -> None:
    algorithms = list(dict.fromkeys(run.algorithm for run in runs))
    samplings = list(dict.fromkeys(run.sampling for run in runs))
    for place, sampling in enumerate(samplings):
        offset = (place - (len(samplings) - 1) / 2) * WIDTH
        for position, algorithm in enumerate(algorithms):
            group = [r for r in runs if (r.algorithm, r.sampling) == (algorithm, sampling)]
            if not group:
                continue
            cell = summarise([run.ood_accuracy for run in group])
            x = position + offset
            axes.bar(
                x,
                cell.mean,
                WIDTH * 0.92,
                yerr=cell.spread,
                color=COLORS.get(sampling),
                label=f"{sampling} batches" if position == 0 else None,
            )
            paper = find_accuracy(
                dataset=group[0].dataset,
                algorithm=algorithm,
                sampling=sampling,
                test_environment=group[0].test_environment,
                selection=group[0].selection,
            )
            if paper is not None:
                axes.plot(
                    [x - WIDTH / 2, x + WIDTH / 2],
                    [paper.accuracy, paper.accuracy],
                    color=LIGHT["ink"],
                    linewidth=2,
                    label="the paper's" if position == 0 and place == 0 else None,
                )
    axes.set_xticks(np.arange(len(algorithms)), [a.replace("_", "\n") for a in algorithms])
    axes.set_ylim(0, 100)
    axes.spines[["top", "right"]].set_visible(False)
