"""`equipoise theory minimax`: Theorem 2.4 in worlds where Bayes' rule can be written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from equipoise.theory.minimax import (
    BALANCERS,
    BATCHES,
    ONE_COVARIATE,
    WORLDS,
    MinimaxCase,
    train_network,
)
from equipoise.theory.outcome import NOT_AS_PROMISED, Outcome, mark_quick
from equipoise.theory.records import Record, run_cases
from equipoise.theory.worlds import World, find_best_tilt

SEEDS = 3
POINTS = 0.02  # two points of worst-case error
FLIPS = (0.05, 0.4)  # for the case beyond the theorem: one label is told better than the other
COLOURS = {"random": "#b2182b", "balanced": "#2166ac", "default": "#92c5de"}


def list_minimax_cases(seeds: range, *, quick: bool) -> list[MinimaxCase]:
    """Random batches, balanced ones, and those of a balancer with default settings."""
    sizes = (4_000, 200, 150, 4_000) if quick else (20_000, 1_500, 600, 40_000)
    return [
        MinimaxCase(world, batches, list_settings(world, batches), *sizes, seed)
        for seed in seeds
        for world in WORLDS
        for batches in BATCHES
    ]


def list_settings(world: str, batches: str) -> dict[str, Any]:
    """The settings of the balancer behind a kind of batches; none for random ones."""
    if batches == "random":
        return {}
    return {**ONE_COVARIATE, **(BALANCERS[world] if batches == "balanced" else {})}


def run_minimax(
    output: str | Path,
    *,
    seed: int = 0,
    quick: bool = False,
    n_jobs: int = 1,
    verbose: bool = True,
) -> Outcome:
    """Compare worst-case risks: Bayes classifiers of every environment, and trained networks."""
    output = Path(output)
    records = run_cases(
        list_minimax_cases(range(seed, seed + (1 if quick else SEEDS)), quick=quick),
        train_network,
        output / "records.jsonl",
        description="training networks",
        n_jobs=n_jobs,
        verbose=verbose,
    )
    table = tabulate_risks(records)
    beyond = tabulate_tilt()
    holds, sentence = describe_risks(table, beyond)
    sentence = mark_quick(sentence) if quick else sentence
    tables = {"worst case over environments": table, "beyond the theorem": beyond}
    outcome = Outcome("minimax", tables, draw_risks(records), sentence, holds)
    outcome.save(output)
    return outcome


def tabulate_risks(records: list[Record]) -> pd.DataFrame:
    """The largest cross-entropy and error over the grid, of closed forms and of networks."""
    rows = []
    for name, world in WORLDS.items():
        others = [e for e in world.grid if e != 0.0]
        nearest = min(others, key=lambda e: world.worst_bayes_risk(e)[0])
        closed = {
            "Bayes, balanced": 0.0,
            "Bayes, best of the others": nearest,
            "Bayes, first training environment": world.training[0],
        }
        for title, environment in closed.items():
            cross_entropy, error = world.worst_bayes_risk(environment)
            rows.append((name, title, environment, cross_entropy, error))
        for batches, title in BATCHES.items():
            own = [r for r in records if _is(r, name, batches)]
            if own:
                worst = [(max(r["cross_entropy"]), max(r["error"])) for r in own]
                rows.append((name, f"network, {title}", None, *np.median(worst, axis=0).tolist()))
    columns = ["world", "classifier", "environment", "cross-entropy", "error"]
    return pd.DataFrame(rows, columns=columns)


def tabulate_tilt() -> pd.DataFrame:
    """Beyond the theorem: worst cases where label frequencies may change too, in nats."""
    tilt, best, balanced = find_best_tilt(FLIPS)
    row = {"flip of y = 0": FLIPS[0], "flip of y = 1": FLIPS[1], "best p(Y=1)": tilt}
    return pd.DataFrame([{**row, "best": best, "balanced": balanced}])


def describe_risks(table: pd.DataFrame, beyond: pd.DataFrame) -> tuple[bool, str]:
    """Whether the balanced classifier is the best one and networks come near it; in words."""
    parts, holds = [], True
    for name in WORLDS:
        own = table[table["world"] == name].set_index("classifier")
        bayes, other = own.loc["Bayes, balanced"], own.loc["Bayes, best of the others"]
        erm, balanced = own.loc["network, ERM"], own.loc["network, balanced"]
        away = float(balanced["error"] - bayes["error"])
        holds &= bool(bayes["cross-entropy"] < other["cross-entropy"])
        holds &= away <= POINTS < float(erm["error"] - bayes["error"])
        parts.append(
            f"{name}: the balanced Bayes classifier has a worst-case cross-entropy of "
            f"{bayes['cross-entropy']:.3f} (the next best {other['cross-entropy']:.3f}) and an "
            f"error of {bayes['error']:.1%}; a network on balanced batches has "
            f"{balanced['error']:.1%}, {100 * away:.1f} points from it, by ERM {erm['error']:.1%}"
        )
        if "network, balanced, default settings" in own.index:
            default = own.loc["network, balanced, default settings", "error"]
            parts[-1] += f" (with default settings {default:.1%})"
    words = ". ".join(part[0].upper() + part[1:] for part in parts) + "."
    tilt = beyond.iloc[0]
    words += (
        f" Where labels are not told equally well and their frequencies may change too, the "
        f"balanced classifier is not minimax: {tilt['balanced']:.3f} against {tilt['best']:.3f}."
    )
    return holds, words if holds else NOT_AS_PROMISED + words


def draw_risks(records: list[Record]) -> Figure:
    """Cross-entropy over the grid: Bayes classifiers of every environment, and networks."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (name, world) in zip(figure.subplots(1, 2), WORLDS.items(), strict=True):
        for environment in world.grid:
            axes.plot(world.grid, _curve(world, environment), color="#cccccc", lw=0.8)
        axes.plot(world.grid, _curve(world, 0.0), color="black", lw=2, label="Bayes, balanced")
        for batches, title in BATCHES.items():
            own = [r["cross_entropy"] for r in records if _is(r, name, batches)]
            if own:
                label = f"network, {title}"
                axes.plot(
                    world.grid, np.median(own, axis=0), "o", color=COLOURS[batches], label=label
                )
        axes.set_ylim(0, 2.2)
        axes.set_title(f"{name} world")
        axes.set_xlabel("environment: how Z goes with Y (0 balanced)")
    figure.axes[0].set_ylabel("cross-entropy there")
    figure.axes[1].legend(fontsize=8)
    return figure


def _curve(world: World, environment: float) -> list[float]:
    return [world.bayes_risk(environment, within)[0] for within in world.grid]


def _is(record: Record, world: str, batches: str) -> bool:
    return (record["case"]["world"], record["case"]["batches"]) == (world, batches)
