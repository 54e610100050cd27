"""Theorem 2.4: the Bayes classifier of a balanced distribution has the least worst-case risk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.random import Generator
from scipy.stats import norm
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.swa_utils import AveragedModel

from equipoise.balancer import CausalBalancer
from equipoise.theory.outcome import Experiment, Judgement, Record
from equipoise.theory.scm import Floats, Ints

BATCHES = {"random": "ERM", "balanced": "balanced"}
ANCHORS = 128  # of every environment in a batch
SEEDS = 3
POINTS = 0.03  # of worst-case error that a network may stay behind Bayes
FLIPS = (0.05, 0.4)  # for the case beyond the theorem: one label is told better than the other
N_VIEWS = 6  # features that show the covariate; the label has one
VIEW_NOISE = 0.5
COLOURS = {"random": "#b2182b", "balanced": "#2166ac"}


# --- worlds small enough for Bayes' rule: risks in any environment, exactly ---------------------


class World:
    """Two labels; x = (u, views): u tells of the label, the views of the covariate, no more.

    So Y and Z are independent given X in the balanced environment, as Theorem 2.4 assumes.
    An environment is one number, how Z goes with Y; 0 is balanced. `grid` has all of them.
    """

    name: str
    grid: tuple[float, ...]
    training: tuple[float, ...]

    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        """Cross-entropy and error in environment `within` of p^e(Y|X) with e = `of`."""
        raise NotImplementedError

    def draw(self, environment: float, labels: Ints, generator: Generator) -> tuple[Floats, Floats]:
        """u and z of examples with these labels."""
        raise NotImplementedError

    def sample(self, environment: float, n: int, generator: Generator) -> tuple[Floats, Ints]:
        """Examples x [N, 1 + N_VIEWS] and labels [N]; the views are z with noise."""
        labels = generator.integers(2, size=n)
        u, z = self.draw(environment, labels, generator)
        views = z[:, None] + VIEW_NOISE * generator.normal(size=(n, N_VIEWS))
        return np.concatenate([u[:, None], views], axis=1), labels

    def worst_bayes_risk(self, of: float) -> tuple[float, float]:
        """The largest cross-entropy and the largest error over the grid."""
        risks = np.array([self.bayes_risk(of, within) for within in self.grid])
        return float(risks[:, 0].max()), float(risks[:, 1].max())


@dataclass(frozen=True)
class DiscreteWorld(World):
    """Two bits, as in ColoredMNIST: u is y flipped with `flip`, and p(z = y | y) = (1 + r) / 2.

    >>> cross_entropy, error = DiscreteWorld().bayes_risk(0.0, 0.9)
    >>> round(error, 3)
    0.25
    """

    flip: float = 0.25
    grid: tuple[float, ...] = tuple(np.round(np.arange(-0.9, 0.91, 0.1), 1).tolist())
    training: tuple[float, ...] = (0.8, 0.6)
    name = "discrete"

    def joint(self, environment: float) -> Floats:
        """p(y, u, z) [2, 2, 2]."""
        agree = np.array([[1 + environment, 1 - environment], [1 - environment, 1 + environment]])
        told = np.array([[1 - self.flip, self.flip], [self.flip, 1 - self.flip]])
        return np.asarray(0.5 * told[:, :, None] * (agree / 2)[:, None, :])

    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        own, truth = self.joint(of), self.joint(within)
        posterior = own / own.sum(axis=0)
        cross_entropy = -(truth * np.log(posterior)).sum()
        # A tie is decided by a coin.
        right = (posterior == posterior.max(axis=0)) / (posterior == posterior.max(axis=0)).sum(0)
        return float(cross_entropy), float(1.0 - (truth * right).sum())

    def draw(self, environment: float, labels: Ints, generator: Generator) -> tuple[Floats, Floats]:
        u = np.where(generator.random(len(labels)) < self.flip, 1 - labels, labels)
        z = np.where(generator.random(len(labels)) < (1 + environment) / 2, labels, 1 - labels)
        return 2.0 * u - 1.0, 2.0 * z - 1.0


@dataclass(frozen=True)
class GaussianWorld(World):
    """u ~ N(±shift, 1), z ~ N(±r, 1) in environment r, the sign being the label's.

    The views show z with little noise; their mean is all they tell. The log-odds of a Bayes
    classifier are linear in u and that mean, so its risk is an integral over one Gaussian.

    >>> world = GaussianWorld()
    >>> round(world.bayes_risk(0.0, -1.5)[1], 3) == round(world.bayes_risk(0.0, 1.5)[1], 3)
    True
    """

    shift: float = 0.75
    grid: tuple[float, ...] = tuple(np.round(np.arange(-1.5, 1.51, 0.25), 2).tolist())
    training: tuple[float, ...] = (1.0, 0.5)
    name = "Gaussian"

    def bayes_risk(self, of: float, within: float) -> tuple[float, float]:
        variance = 1.0 + VIEW_NOISE**2 / N_VIEWS
        on_u, on_views = 2.0 * self.shift, 2.0 * of / variance
        # Sign of the label times the log-odds: a Gaussian.
        mean = on_u * self.shift + on_views * within
        deviation = np.sqrt(on_u**2 + on_views**2 * variance)
        points, weights = np.polynomial.hermite_e.hermegauss(101)
        weights = weights / weights.sum()
        cross_entropy = weights @ np.logaddexp(0.0, -(mean + deviation * points))
        return float(cross_entropy), float(norm.cdf(-mean / deviation))

    def draw(self, environment: float, labels: Ints, generator: Generator) -> tuple[Floats, Floats]:
        sign = 2.0 * labels - 1.0
        u = self.shift * sign + generator.normal(size=len(labels))
        return u, environment * sign + generator.normal(size=len(labels))


def tilted_risks(flips: tuple[float, float], tilt: float) -> tuple[float, float]:
    """Risk in each label of the Bayes classifier of Y ⊥ Z, p(Y = 1) = `tilt`; u flips by label."""
    told = np.array([[1 - flips[0], flips[0]], [flips[1], 1 - flips[1]]])  # p(u | y)
    posterior = told * np.array([[1 - tilt], [tilt]])
    posterior /= posterior.sum(axis=0)
    losses = -(told * np.log(posterior)).sum(axis=1)
    return float(losses[0]), float(losses[1])


def find_best_tilt(flips: tuple[float, float]) -> tuple[float, float, float]:
    """The tilt whose worst label has the least risk, that risk, and the balanced classifier's.

    Where environments may have any p(Y), the worst case is the worse label. Unless both labels
    are told equally well, a classifier with Y ⊥ Z and other label frequencies has the smaller
    worst-case risk than the balanced one: Theorem 2.4 needs environments with uniform labels.

    >>> tilt, best, balanced = find_best_tilt((0.05, 0.4))
    >>> best < balanced
    True
    """
    tilts = np.linspace(0.01, 0.99, 981)
    worst = [max(tilted_risks(flips, float(tilt))) for tilt in tilts]
    best = int(np.argmin(worst))
    return float(tilts[best]), worst[best], max(tilted_risks(flips, 0.5))


WORLDS: dict[str, World] = {world.name: world for world in (DiscreteWorld(), GaussianWorld())}


# --- networks in these worlds ------------------------------------------------------------------


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
    x, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    if case.batches == "random":
        size = 2 * ANCHORS * len(parts)
        batches = (generator.integers(len(labels), size=size) for _ in count())
    else:
        environments = np.repeat(np.arange(len(parts)), case.n_examples)
        balancer = CausalBalancer(random_state=case.seed).fit(x, labels, environments)
        sampler = balancer.batch_sampler(ANCHORS)
        batches = (np.asarray(batch) for _ in count() for batch in sampler)
    network = _fit_network(torch.from_numpy(x).float(), torch.from_numpy(labels), batches, case)
    risks = [_measure(network, world, e, case.n_test, generator) for e in world.grid]
    return {"cross_entropy": [risk[0] for risk in risks], "error": [risk[1] for risk in risks]}


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
    network: nn.Module, world: World, environment: float, n: int, generator: Generator
) -> tuple[float, float]:
    """Cross-entropy and error on fresh examples of an environment."""
    x, labels = world.sample(environment, n, generator)
    y = torch.from_numpy(labels)
    logits = network(torch.from_numpy(x).float())
    error = (logits.argmax(dim=1) != y).double().mean()
    return float(cross_entropy(logits, y)), float(error)


# --- the experiment ----------------------------------------------------------------------------


def list_minimax_cases(seed: int, quick: bool) -> list[MinimaxCase]:
    """Random and balanced batches in both worlds, for three seeds (one if quick)."""
    sizes = (4_000, 200, 4_000) if quick else (20_000, 1_500, 40_000)
    return [
        MinimaxCase(world, batches, *sizes, each)
        for each in range(seed, seed + (1 if quick else SEEDS))
        for world in WORLDS
        for batches in BATCHES
    ]


def judge_risks(records: pd.DataFrame, seed: int, quick: bool) -> Judgement:
    """Whether the balanced classifier has the least worst-case risk, and networks come near it."""
    table = tabulate_risks(records)
    tilt, best, balanced = find_best_tilt(FLIPS)
    beyond = {"flip of y = 0": FLIPS[0], "flip of y = 1": FLIPS[1], "best p(Y=1)": tilt}
    tables = {
        "worst case over environments": table,
        "beyond the theorem": pd.DataFrame([{**beyond, "best": best, "balanced": balanced}]),
    }
    holds, words = describe_risks(table)
    words += (
        f" Where one label is harder to predict and label frequencies may change too, the "
        f"balanced classifier is not minimax: {balanced:.3f} against {best:.3f}."
    )
    return tables, draw_risks(records), holds, words


def tabulate_risks(records: pd.DataFrame) -> pd.DataFrame:
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
            own = _select(records, name, batches)
            if len(own):
                worst = own[["cross_entropy", "error"]].map(max).median()
                rows.append((name, f"network, {title}", None, *worst))
    columns = ["world", "classifier", "environment", "cross-entropy", "error"]
    return pd.DataFrame(rows, columns=columns)


def describe_risks(table: pd.DataFrame) -> tuple[bool, str]:
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
    return holds, ". ".join(part[0].upper() + part[1:] for part in parts) + "."


def draw_risks(records: pd.DataFrame) -> Figure:
    """Cross-entropy over the grid: Bayes classifiers of every environment, and networks."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    for axes, (name, world) in zip(figure.subplots(1, 2), WORLDS.items(), strict=True):
        styles = [(e, {"color": "#cccccc", "lw": 0.8}) for e in world.grid]
        for of, style in [*styles, (0.0, {"color": "black", "lw": 2, "label": "Bayes, balanced"})]:
            axes.plot(world.grid, [world.bayes_risk(of, e)[0] for e in world.grid], **style)
        for batches, title in BATCHES.items():
            own = _select(records, name, batches)["cross_entropy"]
            if len(own):
                medians = np.median(own.tolist(), axis=0)
                label, colour = f"network, {title}", COLOURS[batches]
                axes.plot(world.grid, medians, "o", color=colour, label=label)
        axes.set_ylim(0, 2.2)
        axes.set_title(f"{name} world")
        axes.set_xlabel("environment: how Z goes with Y (0 balanced)")
    figure.axes[0].set_ylabel("cross-entropy there")
    figure.axes[1].legend(fontsize=8)
    return figure


def _select(records: pd.DataFrame, world: str, batches: str) -> pd.DataFrame:
    return records[(records["world"] == world) & (records["batches"] == batches)]


MINIMAX = Experiment("minimax", list_minimax_cases, train_network, judge_risks)
