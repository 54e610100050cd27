"""Which engine searches a stratum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.cells import CellsEngine
from equipoise.balance.engines.direct import DirectEngine
from equipoise.balance.engines.faiss_flat import FaissEngine
from equipoise.balance.engines.hnsw import HNSWEngine
from equipoise.balance.engines.kdtree import KDTreeEngine
from equipoise.balance.engines.line import LineEngine
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_input import check_count
from equipoise.balance.match_names import check_name


class Engine(Protocol):
    """Finds the k nearest candidates of anchors, by (distance, position)."""

    name: str

    def nearest(self, anchors: Scores, k: int) -> Nearest: ...


ENGINES: dict[str, Callable[[Metric, Scores], Engine]] = {
    engine.name: engine
    for engine in (
        DirectEngine,
        LineEngine,
        KDTreeEngine,
        BlockedEngine,
        CellsEngine,
        FaissEngine,
        HNSWEngine,
    )
}


@dataclass(frozen=True)
class Search:
    """What is looked for and by what means, the same in every stratum."""

    metric: Metric
    k: int = 1
    engine: str = "auto"
    device: str | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_name("engine", self.engine, ["auto", *ENGINES])


def choose_engine(metric: Metric, n_labels: int, n_candidates: int) -> str:
    """The engine that should cost least."""
    if n_candidates < 32:
        return "direct"
    if n_labels == 2:
        return "line"
    if metric.name == "kl" or n_labels > 24:
        return "blocked"
    return "kdtree"


def make_engine(search: Search, candidates: Scores, anchors: Scores, k: int) -> Engine:
    """Build the engine over the candidates; "auto" chooses one for these anchors."""
    name = search.engine
    if name == "auto":
        name = choose_engine(search.metric, candidates.log.shape[1], len(candidates))
    return ENGINES[name](search.metric, candidates)
