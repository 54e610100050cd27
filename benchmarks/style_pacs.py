"""Image style as the covariate: features of PACS in two environments where style goes with class.

Z is learned from early channel statistics, the head is trained on the last layer's features. The
file holds `last`, `statistics`, `label` and `style`; it is not part of the project. Give its path,
or set EQUIPOISE_PACS_FEATURES; without it the benchmark says so and ends.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

VARIABLE = "EQUIPOISE_PACS_FEATURES"
TRAIN_SHARE = 0.6  # of every (class, style) cell; the rest is for testing
CLASS_ROWS = 250  # wanted of each class in each environment
# Share of a class's preferred style in the two environments, and the first class's style.
WORLDS = (((0.95, 0.85), 0), ((0.9, 0.7), 0), ((0.9, 0.7), 1), ((0.9, 0.7), 2))


@dataclass(frozen=True)
class Pictures:
    """Features of all images: [N, 1280] and [N, 614], with classes and styles as codes."""

    last: Floats
    statistics: Floats
    label: Ints
    style: Ints
    style_names: tuple[str, ...]


@dataclass(frozen=True)
class Dealt:
    """Rows of a training sample with their environments, and rows to test on."""

    train: Ints
    environments: Ints
    test: Ints


def main(options: Sequence[str] = ()) -> None:
    """Print match rate, recovered gain and recommendation of each world and left-out style."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks style-pacs", description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, default=os.environ.get(VARIABLE))
    parser.add_argument("--seeds", type=int, default=3, help="how many [default: 3]")
    parser.add_argument("--quick", action="store_true", help="one seed, one world")
    arguments = parser.parse_args(options)
    if arguments.file is None or not Path(arguments.file).is_file():
        print(f"skipped: no file of PACS features; give its path or set {VARIABLE}")
        return
    pictures = read_pictures(Path(arguments.file))
    seeds = 1 if arguments.quick else arguments.seeds
    print("links    first  rows  found  same style  random  balanced  true  of gain  CPU-s  advice")
    for links, first in WORLDS[:1] if arguments.quick else WORLDS:
        compare_world(pictures, links, first, range(seeds))
    if not arguments.quick:
        leave_styles_out(pictures)


def read_pictures(path: Path) -> Pictures:
    with np.load(path, allow_pickle=False) as file:
        return Pictures(
            file["last"].astype(np.float64),
            file["statistics"].astype(np.float64),
            file["label"].astype(np.int64),
            file["style"].astype(np.int64),
            tuple(map(str, file["style_names"])),
        )


def deal(
    label: Ints, style: Ints, links: tuple[float, ...], first: int, rng: np.random.Generator
) -> Dealt:
    """Environments in which class c has style (c + first) mod 4 with an environment's share.

    The other styles share the rest evenly, as far as there are images; no image is in both
    environments, nor in training and test.
    """
    n_styles = int(style.max()) + 1
    train, environments, test = [], [], []
    for c in range(int(label.max()) + 1):
        for s in range(n_styles):
            rows = rng.permutation(np.flatnonzero((label == c) & (style == s)))
            kept = int(np.ceil(TRAIN_SHARE * len(rows)))
            test.append(rows[kept:])
            edges = np.linspace(0, kept, len(links) + 1).astype(int)
            for environment, link in enumerate(links):
                share = link if s == (c + first) % n_styles else (1 - link) / (n_styles - 1)
                own = rows[edges[environment] : edges[environment + 1]][: round(CLASS_ROWS * share)]
                train.append(own)
                environments.append(np.full(len(own), environment))
    return Dealt(np.concatenate(train), np.concatenate(environments), np.concatenate(test))


def compare_world(
    pictures: Pictures, links: tuple[float, ...], first: int, seeds: Sequence[int]
) -> None:
    """One line: means over seeds."""
    from equipoise import CausalBalancer

    found, figures = [], []
    for seed in seeds:
        dealt = deal(pictures.label, pictures.style, links, first, np.random.default_rng(seed))
        y, style = pictures.label[dealt.train], pictures.style[dealt.train]
        started = time.process_time()
        balancer = CausalBalancer(random_state=seed)
        balancer.fit(pictures.statistics[dealt.train], y, dealt.environments)
        verdict = balancer.diagnose().verdict
        spent = time.process_time() - started
        true = weigh_by_style(y, style, dealt.environments)
        accuracy = [
            100 * train_head(pictures, dealt.train, dealt.test, own, by_cell=True)
            for own in (None, balancer.weights_, true)
        ]
        same = share_of_style(balancer.matches_.indices, style)
        figures.append((same, *accuracy, spent))
        found.append((balancer.n_varying_, verdict.recommendation))
    same, random, balanced, best, spent = np.mean(figures, axis=0)
    print(
        f"{'/'.join(f'{100 * link:.0f}' for link in links):<8} {first:>5} {len(dealt.train):>5} "
        f"{','.join(str(n) for n, _ in found):>6} {same:>11.1%} {random:>7.1f} {balanced:>9.1f} "
        f"{best:>5.1f} {(balanced - random) / (best - random):>8.2f} {spent:>6.1f}  "
        f"{', '.join(sorted({advice for _, advice in found}))}",
        flush=True,
    )


def weigh_by_style(y: Ints, style: Ints, environments: Ints) -> Floats:
    """1 / p(y | style, environment) by counting, mean 1."""
    cells = np.stack([environments, style], axis=1)
    groups, of = np.unique(cells, axis=0, return_inverse=True)
    counts = np.zeros((len(groups), y.max() + 1))
    np.add.at(counts, (of, y), 1.0)
    weights = counts.sum(axis=1)[of] / counts[of, y]
    return weights / weights.mean()


def share_of_style(indices: Ints, style: Ints) -> float:
    """Share of matches [N, m, k] that have their anchor's style; every label counts alike."""
    is_match = indices >= 0
    same = (style[indices] == style[:, None, None]) & is_match
    counts = is_match.sum(axis=2)
    return float((same.sum(axis=2)[counts > 0] / counts[counts > 0]).mean())


def train_head(
    pictures: Pictures, train: Ints, test: Ints, weights: Any, *, by_cell: bool
) -> float:
    """Accuracy of a linear head on the last layer; `by_cell` gives (class, style) equal weight."""
    scale = StandardScaler().fit(pictures.last[train])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        head = LogisticRegression(C=0.1, max_iter=100)
        head.fit(scale.transform(pictures.last[train]), pictures.label[train], weights)
    right = head.predict(scale.transform(pictures.last[test])) == pictures.label[test]
    if not by_cell:
        return float(right.mean())
    cells = pictures.label[test] * (pictures.style.max() + 1) + pictures.style[test]
    return float(np.mean([right[cells == cell].mean() for cell in np.unique(cells)]))


def leave_styles_out(pictures: Pictures, make_balancer: Callable[..., Any] | None = None) -> None:
    """The published protocol: three styles are the environments, the fourth is the test."""
    if make_balancer is None:
        from equipoise import CausalBalancer as make_balancer
    print("\nleft out      found  random  balanced  price  CPU-s  advice")
    for s, name in enumerate(pictures.style_names):
        train, test = np.flatnonzero(pictures.style != s), np.flatnonzero(pictures.style == s)
        started = time.process_time()
        balancer = make_balancer(random_state=0)
        balancer.fit(pictures.statistics[train], pictures.label[train], pictures.style[train])
        verdict = balancer.diagnose().verdict
        spent = time.process_time() - started
        random, balanced = (
            100 * train_head(pictures, train, test, weights, by_cell=False)
            for weights in (None, balancer.weights_)
        )
        print(
            f"{name:<13} {balancer.n_varying_:>5} {random:>7.1f} {balanced:>9.1f} "
            f"{verdict.price:>6.1f} {spent:>6.1f}  {verdict.recommendation}",
            flush=True,
        )
