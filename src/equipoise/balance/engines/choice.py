"""Which engine searches a stratum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.direct import DirectEngine
from equipoise.balance.engines.kdtree import KDTreeEngine
from equipoise.balance.engines.line import LineEngine
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_names import check_name


class Engine(Protocol):
    """Finds the k nearest candidates of anchors, by (distance, position)."""

    name: str

    def nearest(self, anchors: Scores, k: int) -> Nearest: ...


ENGINES: dict[str, Callable[[Metric, Scores], Engine]] = {
    engine.name: engine for engine in (DirectEngine, LineEngine, KDTreeEngine, BlockedEngine)
}


def check_engine(name: str) -> None:
    """Refuse an engine that does not exist."""
    check_name("engine", name, ["auto", *ENGINES])


def choose_engine(metric: Metric, n_labels: int, n_candidates: int) -> str:
    """The engine that should cost least."""
    if n_candidates < 32:
        return "direct"
    if n_labels == 2:
        return "line"
    if metric.name == "kl" or n_labels > 24:
        return "blocked"
    return "kdtree"


def make_engine(name: str, metric: Metric, candidates: Scores, n_anchors: int, k: int) -> Engine:
    """Build the engine `name` over the candidates; "auto" chooses it."""
    if name == "auto":
        name = choose_engine(metric, candidates.log.shape[1], len(candidates))
    return ENGINES[name](metric, candidates)
