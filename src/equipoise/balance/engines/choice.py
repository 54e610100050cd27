"""Which engine searches a stratum: the one asked for, or the one that should cost least."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.libraries import FaissEngine, HNSWEngine
from equipoise.balance.engines.nearest import DirectEngine, Nearest
from equipoise.balance.engines.pruning import CellsEngine, KDTreeEngine, LineEngine, partition
from equipoise.checks import check_choice, check_count, require

#: Seconds for one pair in blocks: a part that does not depend on m, and one for each label.
#: Calibrated by `python -m benchmarks match-growth` on one core.
PAIR_SECONDS = {
    "kl": (0.45e-9, 0.028e-9),
    "l2": (0.45e-9, 0.028e-9),
    "l1": (0.3e-9, 0.36e-9),
    "linf": (0.3e-9, 0.36e-9),
}
_ANCHOR_SECONDS = (1.2e-6, 13e-9)  # for one anchor whatever the candidates, and for each label
_WORTH_A_LOOK = 0.01  # seconds in blocks; below this nothing is measured
_CLEARLY = 0.4  # of the predicted time in blocks: so fast a tree needs no comparison
_CLOSE = 1.6  # times the best: engines so near are measured once more
_SAMPLE = 512
_SAMPLE_SECONDS = (0.03, 0.5)  # in blocks, for short and for long searches
_SAMPLE_SHARE = 0.005  # of the predicted time, between the two
#: The share of its first few anchors' time that an engine may come down to on the rest.
_HOPE = {"blocked": 0.5, "kdtree": 0.5, "cells": 0.3, "faiss": 0.3}
_NEIGHBOURS = 512
_OPTIMISM = 1.25  # sampled neighbourhoods are a little denser than the groups of a search


class Engine(Protocol):
    """Finds the k nearest candidates of anchors, by (distance, position)."""

    name: str

    def nearest(self, anchors: Scores, k: int) -> Nearest: ...


Maker = Callable[[Metric, Scores], Engine]


def blocked_seconds(metric: Metric, n_labels: int, n_candidates: int) -> float:
    """Predicted time of one anchor in blocks."""
    fixed, each = PAIR_SECONDS[metric.name]
    least, more = _ANCHOR_SECONDS
    return least + more * n_labels + n_candidates * (fixed + each * n_labels)


def rivals(metric: Metric, n_labels: int, n_candidates: int) -> list[str]:
    """Engines that might beat blocks on such sizes, the likelier first."""
    names = []
    if metric.order is not None:
        names.append("kdtree")
    if n_candidates >= 1 << 13:
        names.append("cells")
    if metric.name == "l1" and n_labels >= 8 and find_spec("faiss") is not None:
        require("faiss", extra="faiss")  # once, and not on the clock
        names.append("faiss")
    return names


def cheapest(
    metric: Metric,
    candidates: Scores,
    anchors: Scores,
    k: int,
    makers: dict[str, Maker],
    n_anchors: int | None = None,
) -> str:
    """The engine that should search these first of `n_anchors` soonest, when built for it."""
    n_candidates, n_labels = candidates.log.shape
    n_anchors = n_anchors or len(anchors)
    if n_labels == 2:
        return "line" if n_candidates >= 32 else "direct"
    each = blocked_seconds(metric, n_labels, n_candidates)
    blocks = each * n_anchors
    names = rivals(metric, n_labels, n_candidates) if blocks >= _WORTH_A_LOOK else []
    if not names:
        return "blocked"
    trials = {
        name: _Trial(name, partial(makers[name], metric, candidates), anchors, k, n_anchors)
        for name in ["blocked", *names]
    }
    if "kdtree" in names and "cells" not in names:  # a short search: looking at all costs too much
        trials["kdtree"].run(each, blocks)
        if trials["kdtree"].seconds < _CLEARLY * blocks:
            return "kdtree"
    for trial in trials.values():
        if trial.seconds == np.inf:
            trial.run(each, min(other.seconds for other in trials.values()))
    best = min(trial.seconds for trial in trials.values())
    close = [trial for trial in trials.values() if trial.seconds < _CLOSE * best]
    if len(close) > 1:  # a moment's disturbance must not decide
        for trial in close:
            trial.look(slice(None), at_most=trial.seconds)
    return min(close, key=lambda trial: trial.seconds).name


@dataclass
class _Trial:
    """An engine tried on a sample; `seconds` of this thread are what all anchors would take."""

    name: str
    make: Callable[[], Engine]
    anchors: Scores
    k: int
    n_anchors: int
    seconds: float = np.inf

    def run(self, each: float, give_up: float) -> None:
        """Build the engine and try it; a hopeless start ends it. Blocks take `each` an anchor."""
        cells = self.name == "cells"
        self._sample = _neighbourhoods(self.anchors) if cells else _spaced(self.anchors, each)
        started = time.thread_time()
        self._engine = self.make()
        self._built = time.thread_time() - started
        few = max(1, len(self._sample) // 8)
        self.look(slice(0, few))
        hopeful = self._built + _HOPE[self.name] * (self.seconds - self._built) <= give_up
        if few < len(self._sample) and hopeful:
            self.look(slice(few, None))

    def look(self, part: slice, at_most: float = np.inf) -> None:
        anchors = self._sample.take(part)
        started = time.thread_time()
        self._engine.nearest(anchors, self.k)
        each = (time.thread_time() - started) / len(anchors)
        scale = _OPTIMISM if self.name == "cells" else 1.0
        self.seconds = min(at_most, self._built + scale * each * self.n_anchors)


def _spaced(anchors: Scores, predicted: float) -> Scores:
    """Evenly spaced anchors: more of them where the search is long and a mistake dear."""
    n, n_labels = anchors.log.shape
    seconds = np.clip(_SAMPLE_SHARE * predicted * n * n_labels, *_SAMPLE_SECONDS)
    most = max(_SAMPLE, int(n * min(1.0, n_labels / 80)))
    count = int(np.clip(seconds / predicted, _SAMPLE, most))
    return anchors.take(slice(None, None, max(1, n // count))).take(slice(0, count))


def _neighbourhoods(anchors: Scores) -> Scores:
    """Some anchors with those next to them: cells are searched in such groups."""
    order, starts = partition(anchors.bare(), _NEIGHBOURS)
    groups = len(starts) - 1
    chosen = np.linspace(0, groups - 1, int(np.clip(groups // 16, 8, 32))).astype(np.int64)
    rows = [order[starts[group] : starts[group + 1]] for group in np.unique(chosen)]
    return anchors.take(np.concatenate(rows))


_ALL = (DirectEngine, LineEngine, KDTreeEngine, BlockedEngine, CellsEngine, FaissEngine, HNSWEngine)
ENGINES: dict[str, Maker] = {engine.name: engine for engine in _ALL}


@dataclass(frozen=True)
class Search:
    """What is looked for and by what means; `chosen` has the engine of each size of stratum."""

    metric: Metric
    n_nearest: int = 1
    engine: str = "auto"
    device: str | None = None
    only_positions: bool = False
    tolerance: float | None = None
    chosen: dict[int, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_count("n_nearest", self.n_nearest, most=10_000)
        check_choice("engine", self.engine, ["auto", *ENGINES])
        if self.device is not None and self.engine not in ("auto", "blocked"):
            raise ValueError(
                f"a device computes blocks: engine must be 'auto' or 'blocked', not {self.engine!r}"
            )

    def engine_for(
        self, candidates: Scores, anchors: Scores, k: int, n_anchors: int | None = None
    ) -> Engine:
        """Build the engine, choosing it by these anchors, the first of `n_anchors`, if need be."""
        engine = self.engine_ahead(candidates)
        if engine is None:
            size = len(candidates).bit_length()
            if size not in self.chosen:
                self.chosen[size] = cheapest(
                    self.metric, candidates, anchors, k, ENGINES, n_anchors
                )
            engine = self._build(self.chosen[size], candidates)
        return engine

    def engine_ahead(self, candidates: Scores) -> Engine | None:
        """The engine over the candidates if it is the same whoever asks, else None."""
        name = self.engine if self.device is None else "blocked"
        if name == "auto":
            n_candidates, n_labels = candidates.log.shape
            if n_labels == 2 or rivals(self.metric, n_labels, n_candidates):
                return None
            name = "blocked"
        return self._build(name, candidates)

    def _build(self, name: str, candidates: Scores) -> Engine:
        if name != "blocked":
            return ENGINES[name](self.metric, candidates)
        return BlockedEngine(
            self.metric,
            candidates,
            device=self.device,
            only_positions=self.only_positions,
            tolerance=self.tolerance,
        )
