"""One stratum: anchors of an environment against its candidates of one label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Scores
from equipoise.balance.engines.blocked import BlockedEngine, RowsOnDemand
from equipoise.balance.engines.choice import Engine, Search
from equipoise.balance.engines.nearest import Nearest, first_k

_ENTRIES_AT_ONCE = 1 << 20
_SAMPLE = 1 << 12
_TELLING = 8  # labels that nearly always tell all rows apart


@dataclass(frozen=True)
class Distinct:
    """Rows that differ, in order of first appearance, and who has which.

    Equal scores have equal matches, so each is searched once, and a thousand equal candidates
    cost no more than one.
    """

    first: IntArray  # [u] the first member of each distinct row, increasing
    inverse: IntArray  # [n] which distinct row each row is

    @classmethod
    def all_of(cls, n: int) -> Distinct:
        """n rows that are taken to differ."""
        return cls(np.arange(n), np.arange(n))

    @classmethod
    def of(cls, rows: FloatArray) -> Distinct:
        n = len(rows)
        if n > 4 * _SAMPLE and cls.of(rows[:: -(-n // _SAMPLE)]).all_differ:
            return cls.all_of(n)  # the few there may be are not worth a sort
        if rows.shape[1] > 2 * _TELLING and cls.of(rows[:, :_TELLING]).all_differ:
            return cls.all_of(n)
        code = _hash_rows(rows)
        order = np.argsort(code, kind="stable")
        fresh = np.ones(n, dtype=bool)
        # Rows of equal code are compared in full: a collision only leaves a duplicate in.
        same = code[order[1:]] == code[order[:-1]]
        at = np.flatnonzero(same)
        same[at] = (rows[order[at + 1]] == rows[order[at]]).all(axis=1)
        fresh[1:] = ~same
        if fresh.all():
            return cls.all_of(n)
        first = order[fresh]  # the sort is stable, so this is the lowest of its kind
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        inverse = np.empty(n, dtype=np.int64)
        inverse[order] = rank[np.cumsum(fresh) - 1]
        return cls(np.sort(first), inverse)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def all_differ(self) -> bool:
        return len(self.first) == len(self.inverse)

    @cached_property
    def _members(self) -> tuple[IntArray, IntArray]:
        order = np.argsort(self.inverse, kind="stable")
        return order, np.searchsorted(self.inverse[order], np.arange(len(self) + 1))

    def members(self, which: IntArray, limit: int) -> IntArray:
        """The first `limit` members of the distinct rows `which`, −1 where there are fewer."""
        order, starts = self._members
        places = starts[which][..., None] + np.arange(limit)
        found = (which[..., None] >= 0) & (places < starts[which + 1][..., None])
        return np.where(found, order[np.minimum(places, len(order) - 1)], -1)


def _hash_rows(rows: FloatArray) -> NDArray[np.uint64]:
    n, m = rows.shape
    odd = np.random.default_rng(0).integers(0, 1 << 63, m, dtype=np.uint64) * np.uint64(2)
    odd += np.uint64(1)
    code = np.empty(n, dtype=np.uint64)
    step = max(1, _ENTRIES_AT_ONCE // m)
    for start in range(0, n, step):
        part = slice(start, start + step)
        bits = (rows[part] + 0.0).view(np.uint64)  # + 0.0 makes −0 the same as 0
        bits ^= bits >> np.uint64(32)
        bits *= odd
        bits ^= bits >> np.uint64(29)
        code[part] = bits.sum(axis=1, dtype=np.uint64)
    return code


class Stratum:
    """Candidates of one (environment, label), ready to be searched.

    Answers are positions among the candidates as they were handed in. Distinct scores are
    searched once, on both sides.
    """

    def __init__(self, search: Search, candidates: Scores) -> None:
        self._search = search
        self._distinct = Distinct.of(search.metric.key(candidates))
        candidates = candidates.bare()
        if not self._distinct.all_differ:
            candidates = candidates.take(self._distinct.first)
        self._candidates = candidates
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine in use; there is one after the first search."""
        if self._engine is None:
            raise ValueError("this stratum has not been searched")
        return self._engine

    def nearest(
        self,
        anchors: Scores,
        k: int,
        distinct: Distinct | None = None,
        n_anchors: int | None = None,
    ) -> Nearest:
        """The k nearest candidates of each anchor by (distance, position).

        `distinct` tells equal anchors apart from others, if the caller knows, and `n_anchors`
        how many will ask in all.
        """
        if distinct is None:
            distinct = Distinct.of(self._search.metric.key(anchors))
        if not distinct.all_differ:
            found = self._nearest(anchors.take(distinct.first), k, n_anchors)
            return Nearest(found.distances[distinct.inverse], found.positions[distinct.inverse])
        return self._nearest(anchors, k, n_anchors)

    def _nearest(self, anchors: Scores, k: int, n_anchors: int | None) -> Nearest:
        rows = min(k, len(self._distinct))
        if self._engine is None:
            self._engine = self._search.engine_for(self._candidates, anchors, rows, n_anchors)
        found = self._engine.nearest(anchors, rows)
        return _pad(found, k) if self._distinct.all_differ else self._expand(found, k)

    def build(self) -> None:
        """Build the engine before anyone asks, where its choice does not depend on who does."""
        if self._engine is None:
            self._engine = self._search.engine_ahead(self._candidates)

    def release(self, read: Callable[[IntArray], Scores]) -> None:
        """Let go of the scores of the candidates, if the engine can do without them.

        Blocks of KL keep a float32 matrix, a fifth of it all; the few candidates that are near
        are then read again, by position.
        """
        if isinstance(self._engine, BlockedEngine) and self._search.metric.order is None:
            first = self._distinct.first
            self._engine.candidates = RowsOnDemand(
                len(first), lambda positions: read(first[positions])
            )
            self._candidates = Scores.from_log(np.zeros((0, 0)))

    def _expand(self, found: Nearest, k: int) -> Nearest:
        # The k nearest examples are among the first k members of the k nearest distinct rows.
        n, rows = found.positions.shape
        result = Nearest.empty(n, k)
        step = max(1, _ENTRIES_AT_ONCE // (rows * k))
        for start in range(0, n, step):
            part = slice(start, start + step)
            members = self._distinct.members(found.positions[part], k)
            distances = np.where(members >= 0, found.distances[part, :, None], np.inf)
            flat = (len(members), rows * k)
            result.put(part, first_k(distances.reshape(flat), members.reshape(flat), k))
        return result


def _pad(found: Nearest, k: int) -> Nearest:
    n, width = found.positions.shape
    if width == k:
        return found
    result = Nearest.empty(n, k)
    result.distances[:, :width] = found.distances
    result.positions[:, :width] = found.positions
    return result
