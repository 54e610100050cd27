"""No candidate more than so often: the closest pairs win."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.engines.nearest import Nearest

Search = Callable[[IntArray, int], Nearest]
_ENTRIES_AT_ONCE = 1 << 22


def limit_reuse(
    search: Search, n_anchors: int, n_candidates: int, k: int, reuse_max: int
) -> Nearest:
    """Give each anchor up to k candidates, each candidate to at most `reuse_max` anchors.

    The answer is that of taking all pairs in order of (distance, anchor, candidate) and keeping
    each one that still has room at both ends. It is reached without listing all pairs: anchors
    ask their nearest, a candidate keeps the best that asked, the others ask farther away
    (Gale and Shapley 1962; both sides rank by the same distance, so the outcome is unique).

    `search(anchors, width)` gives the `width` nearest of some anchors.
    """
    width = min(n_candidates, 2 * k + 2)
    waiting = np.arange(n_anchors)
    lists = _Lists(n_anchors, n_candidates, reuse_max)
    while True:
        step = max(1, _ENTRIES_AT_ONCE // width)
        for start in range(0, len(waiting), step):
            some = waiting[start : start + step]
            lists.extend(some, search(some, width))
        lists.settle(k)
        waiting = lists.exhausted(k) if width < n_candidates else waiting[:0]
        if not len(waiting):
            return lists.result(k)
        width = min(n_candidates, 4 * width)


class _Lists:
    """What each anchor may still ask for, in flat arrays ordered by (anchor, rank)."""

    def __init__(self, n_anchors: int, n_candidates: int, reuse_max: int) -> None:
        self.n_anchors, self.reuse_max = n_anchors, reuse_max
        self.anchor = np.zeros(0, dtype=np.int64)
        self.candidate = np.zeros(0, dtype=np.int64)
        self.distance = np.zeros(0)
        # The worst pair a full candidate holds: what is not better need not ask.
        self.worst_distance = np.full(n_candidates, np.inf)
        self.worst_anchor = np.full(n_candidates, n_anchors)

    def extend(self, anchors: IntArray, found: Nearest) -> None:
        """Replace the lists of `anchors` by longer ones, without what has been refused."""
        real = found.positions >= 0
        anchor = np.repeat(anchors, found.positions.shape[1])[real.ravel()]
        candidate, distance = found.positions[real], found.distances[real]
        hopeful = self._hopeful(anchor, candidate, distance)
        keep = ~np.isin(self.anchor, anchors)
        self._set(
            np.concatenate([self.anchor[keep], anchor[hopeful]]),
            np.concatenate([self.candidate[keep], candidate[hopeful]]),
            np.concatenate([self.distance[keep], distance[hopeful]]),
        )

    def _set(self, anchor: IntArray, candidate: IntArray, distance: FloatArray) -> None:
        order = np.lexsort((candidate, distance, anchor))
        self.anchor, self.candidate, self.distance = (
            anchor[order],
            candidate[order],
            distance[order],
        )

    def _hopeful(
        self, anchor: IntArray, candidate: IntArray, distance: FloatArray
    ) -> NDArray[np.bool_]:
        worst = self.worst_distance[candidate]
        level = (distance == worst) & (anchor <= self.worst_anchor[candidate])
        return np.asarray((distance < worst) | level)

    def _drop_refused(self) -> None:
        hopeful = self._hopeful(self.anchor, self.candidate, self.distance)
        self.anchor = self.anchor[hopeful]
        self.candidate = self.candidate[hopeful]
        self.distance = self.distance[hopeful]

    def _asking(self, k: int) -> IntArray:
        starts = np.searchsorted(self.anchor, np.arange(self.n_anchors))
        return np.flatnonzero(np.arange(len(self.anchor)) - starts[self.anchor] < k)

    def settle(self, k: int) -> None:
        """Let anchors ask and candidates refuse until nobody is refused."""
        while True:
            asking = self._asking(k)
            order = asking[
                np.lexsort((self.anchor[asking], self.distance[asking], self.candidate[asking]))
            ]
            held = self.candidate[order]
            rank = np.arange(len(order)) - np.searchsorted(held, held)
            last = order[rank == self.reuse_max - 1]
            self.worst_distance[self.candidate[last]] = self.distance[last]
            self.worst_anchor[self.candidate[last]] = self.anchor[last]
            if not (rank >= self.reuse_max).any():
                return
            self._drop_refused()

    def exhausted(self, k: int) -> IntArray:
        """Anchors with fewer than k candidates left on their lists."""
        left = np.bincount(self.anchor, minlength=self.n_anchors)
        return np.flatnonzero(left < k)

    def result(self, k: int) -> Nearest:
        result = Nearest.empty(self.n_anchors, k)
        asking = self._asking(k)
        anchor = self.anchor[asking]
        rank = np.arange(len(anchor)) - np.searchsorted(anchor, anchor)
        result.distances[anchor, rank] = self.distance[asking]
        result.positions[anchor, rank] = self.candidate[asking]
        return result
