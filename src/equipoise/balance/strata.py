"""Strata of one label in one environment: searched together, each distinct score once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Scores
from equipoise.balance.engines.blocked import BlockedEngine, RowsOnDemand
from equipoise.balance.engines.choice import Engine, Search
from equipoise.balance.engines.kernels import prepare
from equipoise.balance.engines.nearest import Nearest, first_k
from equipoise.balance.scores import ScoreSource

_ENTRIES_AT_ONCE = 1 << 20
_ENTRIES_IN_LISTS = 1 << 22
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


#: Engines that searched a stratum, each with its recall if it is not exact.
Engines = dict[str, float | None]

#: Buffers of one search, whatever its size.
OVERHEAD_BYTES = 24 << 20


@dataclass(frozen=True)
class Portions:
    """How many examples are in memory at once; None means all."""

    candidates: int | None = None
    anchors: int | None = None

    @classmethod
    def within(
        cls, memory: int | None, n_labels: int, k: int, n_jobs: int, n_examples: int
    ) -> Portions:
        """Portions so that `n_jobs` searches together stay under `memory` bytes.

        The answer of a label waits, for all `n_examples` of an environment, to be written down.
        """
        if memory is None:
            return cls()
        fixed = OVERHEAD_BYTES + n_examples * (48 * k + 16)
        share = memory // max(1, n_jobs) - fixed
        row = 64 * n_labels + 128  # scores, factors, an index over them
        if share < 1024 * (2 * row + 64 * k):
            least = max(1, n_jobs) * (fixed + 1024 * (2 * row + 64 * k))
            raise ValueError(
                f"memory of {memory:,} bytes is too little: {n_jobs} jobs over {n_labels} labels "
                f"need at least {least:,}"
            )
        return cls(share // 2 // row, share // 2 // (row + 64 * k))


class Environment:
    """Searches the strata of one environment.

    Without portions the scores are read once and shared by all labels; with them, as needed.
    """

    def __init__(
        self,
        search: Search,
        source: ScoreSource,
        rows: IntArray,
        labels: IntArray,
        portions: Portions,
    ) -> None:
        order = np.argsort(labels[rows], kind="stable")
        self.search, self.source, self.portions = search, source, portions
        self.rows, self.labels = rows[order], labels[rows][order]
        self.arrival = order  # place among `rows`, before sorting: ties between anchors
        self.present, starts = np.unique(self.labels, return_index=True)
        self._starts = np.append(starts, len(rows))
        self._scores: Scores | None = None
        self._distinct: Distinct | None = None
        if portions.anchors is None:
            scores = source.read(self.rows)
            self._distinct = Distinct.of(search.metric.key(scores))
            fits = scores.log.shape[1] > 2 and search.engine not in ("kdtree", "direct", "line")
            self._scores = prepare(search.metric, scores) if fits else scores

    def slice_of(self, label: int) -> slice:
        """Where the examples of a label stand."""
        place = int(np.searchsorted(self.present, label))
        return slice(int(self._starts[place]), int(self._starts[place + 1]))

    def read(self, places: IntArray | slice) -> Scores:
        """Scores of some of the examples, by place."""
        if self._scores is not None:
            return self._scores.take(places)
        return self.source.read(self.rows[places])

    def match(self, label: int, reuse_max: int | None) -> tuple[IntArray, Nearest, Engines]:
        """Anchors of all other labels and their matches of `label`, as places; engines used."""
        mine = self.slice_of(label)
        anchors = np.concatenate([np.arange(mine.start), np.arange(mine.stop, len(self.rows))])
        engines: Engines = {}
        if not len(anchors):
            return anchors, Nearest.empty(0, self.search.n_nearest), engines
        if reuse_max is None:
            nearest = self._nearest(mine, anchors, self.search.n_nearest, engines)
        else:
            anchors = anchors[np.argsort(self.arrival[anchors])]
            nearest = limit_reuse(
                lambda some, width: self._nearest(mine, anchors[some], width, engines),
                len(anchors),
                mine.stop - mine.start,
                self.search.n_nearest,
                reuse_max,
            )
        positions = np.where(nearest.positions < 0, -1, nearest.positions + mine.start)
        return anchors, Nearest(nearest.distances, positions), engines

    def _nearest(self, mine: slice, anchors: IntArray, k: int, engines: Engines) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        count = mine.stop - mine.start
        step = self.portions.candidates or count
        for start in range(mine.start, mine.stop, step):
            part = slice(start, min(mine.stop, start + step))
            stratum = Stratum(self.search, self.read(part))
            for some, places in self._parts(anchors):
                found = stratum.nearest(self.read(places), k, self._equals(places), len(anchors))
                if step < count:
                    before = Nearest(result.distances[some], result.positions[some])
                    found = before.merge(found, start - mine.start)
                result.put(some, found)
            engines[stratum.engine.name] = getattr(stratum.engine, "recall", None)
        return result

    def _parts(self, anchors: IntArray) -> Iterator[tuple[slice, IntArray | slice]]:
        """Anchors in portions, and as slices where they are neighbours: slices copy nothing."""
        cuts = np.flatnonzero(np.diff(anchors) != 1) + 1
        runs = len(cuts) < 4
        start = 0
        for piece in np.split(anchors, cuts) if runs else [anchors]:
            step = self.portions.anchors or max(1, len(piece))
            for first in range(0, len(piece), step):
                some = piece[first : first + step]
                places = slice(int(some[0]), int(some[-1]) + 1) if runs else some
                yield slice(start + first, start + first + len(some)), places
            start += len(piece)

    def _equals(self, places: IntArray | slice) -> Distinct | None:
        if self._distinct is None:
            return None
        if self._distinct.all_differ:
            n = places.stop - places.start if isinstance(places, slice) else len(places)
            return Distinct.all_of(n)
        _, first, inverse = np.unique(
            self._distinct.inverse[places], return_index=True, return_inverse=True
        )
        return Distinct(first, inverse)


def limit_reuse(
    search: Callable[[IntArray, int], Nearest],
    n_anchors: int,
    n_candidates: int,
    k: int,
    reuse_max: int,
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
    has_all = np.zeros(n_anchors, dtype=bool)  # anchors whose list holds every candidate
    lists = _Lists(n_anchors, n_candidates, reuse_max)
    while True:
        step = max(1, _ENTRIES_IN_LISTS // width)
        for start in range(0, len(waiting), step):
            some = waiting[start : start + step]
            lists.extend(some, search(some, width))
        has_all[waiting] = width == n_candidates
        lists.settle(k)
        waiting = lists.exhausted(k)
        waiting = waiting[~has_all[waiting]]
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
