"""What a search costs: known for blocks, measured on a sample for engines that prune.

Blocks look at every pair, so their time follows from sizes alone. What a tree or cells save
depends on how peaked the scores are; a few hundred anchors tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.boxes import partition
from equipoise.balance.engines.faiss_flat import import_faiss
from equipoise.balance.engines.nearest import Nearest

#: Seconds for one pair in blocks: a part that does not depend on m, and one for each label.
#: Calibrated by `python -m benchmarks match-growth` on one core.
PAIR_SECONDS = {
    "kl": (0.45e-9, 0.028e-9),
    "l2": (0.45e-9, 0.028e-9),
    "l1": (0.3e-9, 0.33e-9),
    "linf": (0.3e-9, 0.33e-9),
}
_WORTH_A_LOOK = 0.01  # seconds in blocks; below this nothing is measured
_CLEARLY = 0.25  # of the predicted time in blocks: so fast a tree needs no comparison
_SAMPLE = 512
_SAMPLE_SECONDS = 0.05
_NEIGHBOURS = 512
_OPTIMISM = 1.25  # sampled neighbourhoods are a little denser than the groups of a search


class _Engine(Protocol):
    def nearest(self, anchors: Scores, k: int) -> Nearest: ...


Maker = Callable[[Metric, Scores], _Engine]


def blocked_seconds(metric: Metric, n_labels: int, n_candidates: int) -> float:
    """Predicted time of one anchor in blocks."""
    fixed, each = PAIR_SECONDS[metric.name]
    return 1e-6 + n_candidates * (fixed + each * n_labels)


def rivals(metric: Metric, n_labels: int, n_candidates: int) -> list[str]:
    """Engines that might beat blocks on such sizes, the likelier first."""
    names = []
    if metric.order is not None:
        names.append("kdtree")
    if n_candidates >= 1 << 13:
        names.append("cells")
    if metric.name == "l1" and n_labels >= 8 and find_spec("faiss") is not None:
        import_faiss()  # once, and not on the clock
        names.append("faiss")
    return names


def cheapest(
    metric: Metric, candidates: Scores, anchors: Scores, k: int, makers: dict[str, Maker]
) -> str:
    """The engine that should search these anchors soonest, its preparation included."""
    n_candidates, n_labels = candidates.log.shape
    if n_labels == 2:
        return "line" if n_candidates >= 32 else "direct"
    predicted = blocked_seconds(metric, n_labels, n_candidates)
    if predicted * len(anchors) < _WORTH_A_LOOK:
        return "blocked"
    names = rivals(metric, n_labels, n_candidates)
    if not names:
        return "blocked"
    known: dict[str, float] = {}
    if "kdtree" in names and "cells" not in names:  # a short search: looking at all costs too much
        blocks = predicted * len(anchors)
        tree = _measure(makers["kdtree"], metric, candidates, anchors, k, "kdtree", blocks)
        if tree < _CLEARLY * blocks:
            return "kdtree"
        known["kdtree"] = tree
    best, least = "blocked", _measure(makers["blocked"], metric, candidates, anchors, k, "blocked")
    for name in names:
        seconds = known.get(name)
        if seconds is None:
            seconds = _measure(makers[name], metric, candidates, anchors, k, name, least)
        if seconds < least:
            best, least = name, seconds
    return best


def _measure(
    maker: Maker,
    metric: Metric,
    candidates: Scores,
    anchors: Scores,
    k: int,
    name: str,
    give_up: float = np.inf,
) -> float:
    """Seconds for all anchors, judged by a sample; a hopeless start ends it.

    Seconds of this thread alone, so that what else the machine does decides nothing.
    """
    predicted = blocked_seconds(metric, *candidates.log.shape[::-1])
    sample = _neighbourhoods(anchors) if name == "cells" else _spaced(anchors, predicted)
    started = time.thread_time()
    engine = maker(metric, candidates)
    built = time.thread_time() - started
    few = max(1, len(sample) // 8)
    seconds = _per_anchor(engine, sample.take(slice(0, few)), k)
    hopeless = name != "faiss" and built + 0.3 * seconds * len(anchors) > give_up
    if few < len(sample) and not hopeless:
        seconds = _per_anchor(engine, sample.take(slice(few, None)), k)
    return built + seconds * len(anchors) * (_OPTIMISM if name == "cells" else 1.0)


def _per_anchor(engine: _Engine, anchors: Scores, k: int) -> float:
    started = time.thread_time()
    engine.nearest(anchors, k)
    return (time.thread_time() - started) / len(anchors)


def _spaced(anchors: Scores, predicted: float) -> Scores:
    """Evenly spaced anchors, enough of them to be worth some milliseconds in blocks."""
    count = int(np.clip(_SAMPLE_SECONDS / predicted, _SAMPLE, max(_SAMPLE, len(anchors) // 6)))
    return anchors.take(slice(None, None, max(1, len(anchors) // count))).take(slice(0, count))


def _neighbourhoods(anchors: Scores) -> Scores:
    """Some anchors with those next to them: cells are searched in such groups."""
    order, starts = partition(anchors.bare(), _NEIGHBOURS)
    groups = len(starts) - 1
    chosen = np.linspace(0, groups - 1, int(np.clip(groups // 16, 8, 32))).astype(np.int64)
    rows = [order[starts[group] : starts[group + 1]] for group in np.unique(chosen)]
    return anchors.take(np.concatenate(rows))
