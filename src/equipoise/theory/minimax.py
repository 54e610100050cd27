"""Theorem 2.4: the Bayes classifier of a balanced distribution has the least worst-case risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from equipoise.balancer import CausalBalancer
from equipoise.theory.outcome import NOT_AS_PROMISED, Outcome, Record, mark_quick, run_cases
from equipoise.theory.worlds import DiscreteWorld, GaussianWorld, World, find_best_tilt

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

WORLDS: dict[str, World] = {world.name: world for world in (DiscreteWorld(), GaussianWorld())}
BATCHES = {"random": "ERM", "balanced": "balanced"}
ANCHORS = 128  # of every environment in a batch
SEEDS = 3
POINTS = 0.03  # of worst-case error that a network may stay behind Bayes
FLIPS = (0.05, 0.4)  # for the case beyond the theorem: one label is told better than the other
COLOURS = {"random": "#b2182b", "balanced": "#2166ac"}


@dataclass(frozen=True)
class MinimaxCase:
    """A network to train: in which world, with which of `BATCHES`."""

    world: str
    batches: str
    n_examples: int  # of every training environment
    steps: int
    n_test: int  # of every environment of the grid
    seed: int

    def __str__(self) -> str:
        return f"{self.world}, {self.batches} batches, seed {self.seed}"


def train_network(case: MinimaxCase) -> Record:
    """Train a small network on the training environments and measure it all over the grid.

    Balanced batches are those of a `CausalBalancer` at its default settings, which sees x, y and
    the environment, never z; random ones have as many examples. Everything else is the same.
    """
    world = WORLDS[case.world]
    generator = np.random.default_rng([case.seed, 0x24])
    parts = [world.sample(e, case.n_examples, generator) for e in world.training]
    x = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    environments = np.repeat(np.arange(len(parts)), case.n_examples)
    if case.batches != "random":
        balancer = CausalBalancer(random_state=case.seed).fit(x, labels, environments)
        batches = _repeat(balancer.batch_sampler(ANCHORS))
    else:
        batches = _draw_at_random(len(labels), 2 * ANCHORS * len(parts), generator)
    network = _fit_network(torch.from_numpy(x).float(), torch.from_numpy(labels), batches, case)
    risks = [_measure(network, world, e, case.n_test, generator) for e in world.grid]
    return {"cross_entropy": [risk[0] for risk in risks], "error": [risk[1] for risk in risks]}


def _repeat(sampler: Iterable[list[int]]) -> Iterator[Ints]:
    while True:
        for batch in sampler:
            yield np.asarray(batch)


def _draw_at_random(n: int, size: int, generator: np.random.Generator) -> Iterator[Ints]:
    while True:
        yield generator.integers(n, size=size)


def _fit_network(x: Tensor, y: Tensor, batches: Iterator[Ints], case: MinimaxCase) -> nn.Module:
    """Two hidden layers; the weights of the second half of the steps are averaged."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.seed)
        network = nn.Sequential(
            nn.Linear(x.shape[1], 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2)
        )
    averaged = AveragedModel(network)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    for step in range(case.steps):
        rows = torch.from_numpy(next(batches))
        optimizer.zero_grad()
        cross_entropy(network(x[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step >= case.steps // 2:
            averaged.update_parameters(network)
    return averaged


@torch.no_grad()
def _measure(
    network: nn.Module, world: World, environment: float, n: int, generator: np.random.Generator
) -> tuple[float, float]:
    """Cross-entropy and error on fresh examples of an environment."""
    x, labels = world.sample(environment, n, generator)
    y = torch.from_numpy(labels)
    logits = network(torch.from_numpy(x).float())
    error = (logits.argmax(dim=1) != y).double().mean()
    return float(cross_entropy(logits, y)), float(error)


# --- the experiment ----------------------------------------------------------------------------


def list_minimax_cases(seeds: range, *, quick: bool) -> list[MinimaxCase]:
    """Random and balanced batches in both worlds, all of one seed before the next."""
    sizes = (4_000, 200, 4_000) if quick else (20_000, 1_500, 40_000)
    return [
        MinimaxCase(world, batches, *sizes, seed)
        for seed in seeds
        for world in WORLDS
        for batches in BATCHES
    ]


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
        far = f", more than {100 * POINTS:.0f}" if away > POINTS else ""
        holds &= bool(bayes["cross-entropy"] < other["cross-entropy"])
        holds &= away <= POINTS < float(erm["error"] - bayes["error"])
        parts.append(
            f"{name} world: the balanced Bayes classifier has a worst-case cross-entropy of "
            f"{bayes['cross-entropy']:.3f} (the next best {other['cross-entropy']:.3f}) and an "
            f"error of {bayes['error']:.1%}. A network on balanced batches has "
            f"{balanced['error']:.1%}, {100 * away:.1f} points from it{far}; ERM has "
            f"{erm['error']:.1%}"
        )
    words = ". ".join(part[0].upper() + part[1:] for part in parts) + "."
    tilt = beyond.iloc[0]
    words += (
        f" Where one label is harder to predict and label frequencies may change too, the "
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
