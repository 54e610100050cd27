"""The record `results/worlds.json`, the page `docs/worlds.md` and its picture."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Picture

from benchmarks.worlds.catalog import WORLDS
from benchmarks.worlds.summary import check_figures, show
from equipoise import __version__
from equipoise.files import write_json, write_whole

TITLES = {
    "seen": "Seeds that were looked at while the method was developed",
    "unseen": "Seeds that were not looked at before the method was fixed",
}
INTRODUCTION = """\
# Worlds with known truth

<!-- written by `python -m benchmarks worlds`; do not edit -->

{n} worlds, one set of default settings, three seeds each. In most of them a covariate is planted
whose correlation with the label differs between environments. In the others nothing is planted,
the correlation is equal everywhere, or the label's own content varies between sites.

Every world has test samples from the same population. *As they are*: a new draw of the training
environments. *Even*: the covariate is independent of the label. *Reversed*: a label shows the
covariate of another. Labels are as frequent as before. Out of domain means reversed, or a new site
where nothing reverses. Accuracies are means over logistic regression, boosted trees and a
perceptron, and for images also a convolutional network, for which their price, even and reversed
stand.

| column | meaning |
|---|---|
| found | directions with a varying link, `n_varying_`, for each seed |
| left | mutual information of true covariate and label within environments, balanced ÷ before |
| random, balanced, true | out-of-domain accuracy by weights; *true*: by the true covariate |
| recovered | (balanced − random) ÷ (true − random), where true gains at least 5 points |
| price | accuracy lost as they are, predicted from the training data alone (and real) |
| even, reversed | accuracy gained there, predicted from the training data alone (and real) |
| CPU-s | processor seconds of fit and diagnosis |

![Accuracy out of domain, predicted and real price and protection](images/worlds.png)
"""


def write_page(root: Path, half: str, seeds: Sequence[int], table: pd.DataFrame) -> None:
    """Replace one half of the record, then make the page from both."""
    path = root / "results" / "worlds.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"halves": {}}
    rows = [_plain({"world": name} | dict(row)) for name, row in table.iterrows()]
    own = {"version": __version__, "seeds": list(seeds), "worlds": rows}
    halves = {name: own if name == half else record["halves"].get(name) for name in TITLES}
    halves = {name: found for name, found in halves.items() if found}
    command = "python -m benchmarks worlds --half " + " | ".join(halves)
    write_json(path, {"command": command, "halves": halves})
    tables = {name: read_half(found) for name, found in halves.items()}
    parts = [INTRODUCTION.format(n=len(WORLDS))]
    for name, found in tables.items():
        parts.append(_write_half(name, halves[name]["seeds"], found))
    with write_whole(root / "docs" / "worlds.md") as temporary:
        temporary.write_text("\n".join(parts))
    picture = root / "docs" / "images" / "worlds.png"
    with write_whole(picture) as temporary:
        plot(tables).savefig(temporary, dpi=110, format="png")


def read_half(half: dict[str, Any]) -> pd.DataFrame:
    """The table of a recorded half."""
    table = pd.DataFrame(half["worlds"]).set_index("world")
    numbers = [name for name in table if table[name].dtype == object and _is_numeric(table[name])]
    return table.astype(dict.fromkeys(numbers, float))


def _is_numeric(column: pd.Series) -> bool:
    return all(value is None or isinstance(value, int | float) for value in column)


def _plain(value: Any) -> Any:
    """Numbers rounded, NaN as None: strict and small JSON."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, float | np.floating):
        return round(float(value), 3) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _write_half(half: str, seeds: Sequence[int], table: pd.DataFrame) -> str:
    rows = show(table)
    lines = [f"## {TITLES[half]}", "", f"Seeds {', '.join(map(str, seeds))}.", ""]
    lines += [f"- {figure.write()}" for figure in check_figures(table)]
    lines += ["", "| " + " | ".join(rows[0]) + " |", "|---" * len(rows[0]) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    return "\n".join([*lines, ""])


def plot(tables: dict[str, pd.DataFrame]) -> Picture:
    """Accuracy of every world on the left; predicted against real on the right."""
    table = list(tables.values())[-1]
    figure = Picture(figsize=(12, max(9.0, 0.2 * len(table) + 1.2)), layout="constrained")
    grid = figure.add_gridspec(3, 2, width_ratios=(1.5, 1))
    _plot_accuracy(figure.add_subplot(grid[:, 0]), table)
    for row, (name, real) in enumerate(
        (("price", "real price"), ("even", "real even"), ("reversed", "real reversed"))
    ):
        axes = figure.add_subplot(grid[row, 1])
        for half, own in tables.items():
            axes.scatter(own[name], own[real], s=14, alpha=0.8, label=f"{half} seeds")
        ends = np.array(axes.get_xlim())
        axes.plot(ends, ends, color="0.5", lw=1)
        axes.fill_between(ends, ends - 5, ends + 5, color="0.9", zorder=0)
        title = name if name == "price" else f"protection, {name}"
        axes.set(title=f"{title} (points)", xlabel="predicted", ylabel="real")
        axes.legend(frameon=False)
    return figure


def _plot_accuracy(axes: Any, table: pd.DataFrame) -> None:
    heights = np.arange(len(table))[::-1]
    ends = table[["random", "balanced"]]
    axes.hlines(heights, ends.min(axis=1), ends.max(axis=1), color="0.8", lw=2, zorder=0)
    axes.scatter(table["random"], heights, color="0.5", s=16, label="random")
    axes.scatter(table["balanced"], heights, color="C0", s=22, label="balanced")
    axes.scatter(table["true"], heights, marker="|", color="C1", s=60, label="true covariate")
    axes.set_yticks(heights, table.index, fontsize=8)
    axes.set(title="accuracy out of domain (%)", ylim=(-1, len(table)))
    axes.legend(loc="lower left", frameon=False)
