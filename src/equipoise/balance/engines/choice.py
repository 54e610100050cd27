"""Which engine searches a stratum: the one asked for, or the one that should cost least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from equipoise.balance.distances import Metric, Scores
from equipoise.balance.engines.blocked import BLOCK_BYTES, BlockedEngine
from equipoise.balance.engines.cells import CellsEngine
from equipoise.balance.engines.cost import cheapest, rivals
from equipoise.balance.engines.direct import DirectEngine
from equipoise.balance.engines.faiss_flat import FaissEngine
from equipoise.balance.engines.hnsw import HNSWEngine
from equipoise.balance.engines.kdtree import KDTreeEngine
from equipoise.balance.engines.line import LineEngine
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.engines.torch_blocks import DEVICE_BLOCK_BYTES, TorchBlocks
from equipoise.balance.match_input import check_count
from equipoise.choices import check_choice


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
    """What is looked for and by what means, the same in every stratum.

    `chosen` remembers the automatic choice for strata of a size (in powers of two). With
    `only_positions` an engine may leave distances out where they decide nothing.
    """

    metric: Metric
    k: int = 1
    engine: str = "auto"
    device: str | None = None
    only_positions: bool = False
    chosen: dict[int, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        check_count("k", self.k)
        check_choice("engine", self.engine, ["auto", *ENGINES])
        if self.device is not None and self.engine not in ("auto", "blocked"):
            raise ValueError(
                f"a device computes blocks: engine must be 'auto' or 'blocked', not {self.engine!r}"
            )

    def engine_for(
        self, candidates: Scores, anchors: Scores, k: int, n_anchors: int | None = None
    ) -> Engine:
        """Build the engine over the candidates, choosing it by these anchors if need be.

        They may be the first of `n_anchors` that will be searched.
        """
        name = self.engine if self.device is None else "blocked"
        if name == "auto":
            size = len(candidates).bit_length()
            if size not in self.chosen:
                self.chosen[size] = cheapest(
                    self.metric, candidates, anchors, k, dict(ENGINES), n_anchors
                )
            name = self.chosen[size]
        return self._build(name, candidates)

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
            block_bytes=BLOCK_BYTES if self.device is None else DEVICE_BLOCK_BYTES,
            blocks=None if self.device is None else TorchBlocks(self.device),
            only_positions=self.only_positions,
        )
