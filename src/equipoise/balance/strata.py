"""Strata of one label in one environment: searched together, each distinct score once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray, Scores, ScoresOnDemand
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.kernels import prepare
from equipoise.balance.engines.nearest import Nearest, first_k
from equipoise.balance.scores import ScoreSource

_ENTRIES_AT_ONCE = 1 << 20
_ENTRIES_IN_LISTS = 1 << 22
_SAMPLE = 1 << 12
_TELLING = 8  # labels that nearly always tell all rows apart
#: Buffers of one search, whatever its size.
OVERHEAD_BYTES = 24 << 20


@dataclass(frozen=True)
class Distinct:
    """Rows that differ, in order of first appearance, and who has which: each is searched once."""

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
        found = cls.of_codes(_hash_rows(rows))
        if not found.all_differ and (rows[found.first[found.inverse]] != rows).any():
            return cls.all_of(n)  # two rows of one code: equal ones stay in as if they differed
        return found

    @classmethod
    def of_codes(cls, codes: NDArray[Any]) -> Distinct:
        inverse, values = pd.factorize(codes)
        if len(values) == len(codes):
            return cls.all_of(len(codes))
        return cls(np.unique(inverse, return_index=True)[1], inverse)

    @property
    def all_differ(self) -> bool:
        return len(self.first) == len(self.inverse)

    @cached_property
    def _members(self) -> tuple[IntArray, IntArray]:
        order = np.argsort(self.inverse, kind="stable")
        return order, np.searchsorted(self.inverse[order], np.arange(len(self.first) + 1))

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
    """Candidates of one (environment, label); answers are positions among them as handed in."""

    engine: Any = None  # there is one after the first search

    def __init__(self, search: Search, candidates: Scores) -> None:
        self._search = search
        self._distinct = Distinct.of(search.metric.key(candidates))
        candidates = candidates.bare()
        if not self._distinct.all_differ:
            candidates = candidates.take(self._distinct.first)
        self._candidates = candidates

    def nearest(
        self, anchors: Scores, k: int, distinct: Distinct, n_anchors: int | None = None
    ) -> Nearest:
        """The k nearest of each anchor by (distance, position); `n_anchors` ask in all."""
        if not distinct.all_differ:
            anchors = anchors.take(distinct.first)
        rows = min(k, len(self._distinct.first))
        if self.engine is None:
            self.engine = self._search.engine_for(self._candidates, anchors, rows, n_anchors)
        found: Nearest = self.engine.nearest(anchors, rows)
        if not self._distinct.all_differ or rows < k:
            found = self._expand(found, k)
        if distinct.all_differ:
            return found
        return Nearest(found.distances[distinct.inverse], found.positions[distinct.inverse])

    def build(self) -> None:
        """Build the engine before anyone asks, where its choice does not depend on who does."""
        if self.engine is None:
            self.engine = self._search.engine_ahead(self._candidates)

    def release(self, read: Callable[[IntArray], Scores]) -> None:
        """Let go of the scores where blocks of KL search them: the near ones are read again."""
        if isinstance(self.engine, BlockedEngine) and self._search.metric.order is None:
            first = self._distinct.first
            self.engine.candidates = ScoresOnDemand(len(first), lambda rows: read(first[rows]))
            self._candidates = Scores.from_log(np.zeros((0, 0)))

    def _expand(self, found: Nearest, k: int) -> Nearest:
        # The k nearest examples are among the first k members of the k nearest distinct rows.
        n, rows = found.positions.shape
        most = min(k, int(np.bincount(self._distinct.inverse).max()))
        result = Nearest.empty(n, k)
        step = max(1, _ENTRIES_AT_ONCE // (rows * most))
        for start in range(0, n, step):
            part = slice(start, start + step)
            members = self._distinct.members(found.positions[part], most)
            distances = np.where(members >= 0, found.distances[part, :, None], np.inf)
            flat = (len(members), rows * most)
            result.put(part, first_k(distances.reshape(flat), members.reshape(flat), k))
        return result


#: Engines that searched a stratum, each with its recall if it is not exact.
Engines = dict[str, float | None]


def count_portions(
    memory: int | None, n_labels: int, k: int, n_jobs: int, n_examples: int
) -> tuple[int | None, int | None]:
    """Candidates and anchors that `n_jobs` searches may hold under `memory` bytes; None: all."""
    if memory is None:
        return None, None
    fixed = OVERHEAD_BYTES + n_examples * (48 * k + 16)
    share = memory // max(1, n_jobs) - fixed
    row = 64 * n_labels + 128  # scores, factors, an index over them
    if share < 1024 * (2 * row + 64 * k):
        least = max(1, n_jobs) * (fixed + 1024 * (2 * row + 64 * k))
        raise ValueError(
            f"memory of {memory:,} bytes is too little: {n_jobs} jobs over {n_labels} labels "
            f"need at least {least:,}"
        )
    return share // 2 // row, share // 2 // (row + 64 * k)


class Environment:
    """Searches the strata of one environment; without portions all labels share its scores."""

    def __init__(
        self,
        search: Search,
        source: ScoreSource,
        rows: IntArray,
        labels: IntArray,
        portions: tuple[int | None, int | None],
    ) -> None:
        order = np.argsort(labels[rows], kind="stable")
        self.search, self.source = search, source
        self._n_candidates, self._n_anchors = portions
        self.rows, self.labels = rows[order], labels[rows][order]
        self.arrival = order  # place among `rows`, before sorting: ties between anchors
        self.present, starts = np.unique(self.labels, return_index=True)
        self._starts = np.append(starts, len(rows))
        self._scores: Scores | None = None
        if self._n_anchors is None:
            scores = source.read(self.rows)
            self._distinct = Distinct.of(search.metric.key(scores))
            fits = scores.log.shape[1] > 2 and search.engine not in ("kdtree", "direct", "line")
            self._scores = prepare(search.metric, scores) if fits else scores

    def places_of(self, label: int) -> IntArray:
        """Where the examples of a label stand."""
        place = int(np.searchsorted(self.present, label))
        return np.arange(self._starts[place], self._starts[place + 1])

    def read(self, places: IntArray | slice) -> Scores:
        """Scores of some of the examples, by place."""
        if self._scores is not None:
            return self._scores.take(places)
        return self.source.read(self.rows[places])

    def match(self, label: int, reuse_max: int | None) -> tuple[IntArray, Nearest, Engines]:
        """Anchors of all other labels and their matches of `label`, as places; engines used."""
        mine = self.places_of(label)
        anchors = np.delete(np.arange(len(self.rows)), mine)
        engines: Engines = {}
        k = self.search.n_nearest
        if not len(anchors):
            return anchors, Nearest.empty(0, k), engines
        if reuse_max is None:
            nearest = self._nearest(mine, anchors, k, engines)
        else:
            anchors = anchors[np.argsort(self.arrival[anchors])]
            nearest = limit_reuse(
                lambda some, width: self._nearest(mine, anchors[some], width, engines),
                len(anchors),
                len(mine),
                k,
                reuse_max,
            )
        positions = np.where(nearest.positions < 0, -1, nearest.positions + mine[0])
        return anchors, Nearest(nearest.distances, positions), engines

    def _nearest(self, mine: IntArray, anchors: IntArray, k: int, engines: Engines) -> Nearest:
        result = Nearest.empty(len(anchors), k)
        step = self._n_candidates or len(mine)
        for start in range(0, len(mine), step):
            part = mine[start : start + step]
            stratum = Stratum(self.search, self.read(slice(part[0], part[-1] + 1)))
            for some, places in self._parts(anchors):
                scores = self.read(places)
                distinct = self._find_equal(scores, places)
                found = stratum.nearest(scores, k, distinct, len(anchors))
                if step < len(mine):
                    before = Nearest(result.distances[some], result.positions[some])
                    found = before.merge(found, start)
                result.put(some, found)
            engines[stratum.engine.name] = getattr(stratum.engine, "recall", None)
        return result

    def _parts(self, anchors: IntArray) -> Iterator[tuple[slice, IntArray | slice]]:
        """Anchors in portions, and as slices where they are neighbours: slices copy nothing."""
        cuts = np.flatnonzero(np.diff(anchors) != 1) + 1
        runs = len(cuts) < 4
        start = 0
        for piece in np.split(anchors, cuts) if runs else [anchors]:
            step = self._n_anchors or max(1, len(piece))
            for first in range(0, len(piece), step):
                some = piece[first : first + step]
                places = slice(int(some[0]), int(some[-1]) + 1) if runs else some
                yield slice(start + first, start + first + len(some)), places
            start += len(piece)

    def _find_equal(self, scores: Scores, places: IntArray | slice) -> Distinct:
        if self._scores is None:
            return Distinct.of(self.search.metric.key(scores))
        if self._distinct.all_differ:
            return Distinct.all_of(len(scores))
        return Distinct.of_codes(self._distinct.inverse[places])


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
    # The worst pair a full candidate holds: what is not better need not ask.
    worst_distance, worst_anchor = np.full(n_candidates, np.inf), np.full(n_candidates, n_anchors)

    def hopeful(anchor: IntArray, distance: FloatArray, candidate: IntArray) -> list[Any]:
        worst = worst_distance[candidate]
        level = (distance == worst) & (anchor <= worst_anchor[candidate])
        kept = (distance < worst) | level
        return [anchor[kept], distance[kept], candidate[kept]]

    # What each anchor may still ask for, in order of (anchor, distance, candidate).
    pairs: list[Any] = [np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0, dtype=np.int64)]
    while True:
        others = ~np.isin(pairs[0], waiting)
        lists = [[part[others] for part in pairs]]
        step = max(1, _ENTRIES_IN_LISTS // width)
        for start in range(0, len(waiting), step):
            some = waiting[start : start + step]
            found = search(some, width)
            real = found.positions >= 0
            asked = np.repeat(some, width)[real.ravel()]
            lists.append(hopeful(asked, found.distances[real], found.positions[real]))
        pairs = [np.concatenate(part) for part in zip(*lists, strict=True)]
        order = np.lexsort((pairs[2], pairs[1], pairs[0]))
        pairs = [part[order] for part in pairs]
        has_all[waiting] = width == n_candidates
        while True:  # until nobody is refused
            rank = _rank_within(pairs[0], n_anchors)
            anchor, distance, candidate = (part[rank < k] for part in pairs)
            order = np.lexsort((anchor, distance, candidate))
            held = _rank_within(candidate[order], n_candidates)
            last = order[held == reuse_max - 1]
            worst_distance[candidate[last]] = distance[last]
            worst_anchor[candidate[last]] = anchor[last]
            if not (held >= reuse_max).any():
                break
            pairs = hopeful(*pairs)
        left = np.bincount(pairs[0], minlength=n_anchors)
        waiting = np.flatnonzero((left < k) & ~has_all)
        if not len(waiting):
            result = Nearest.empty(n_anchors, k)
            result.distances[anchor, rank[rank < k]] = distance
            result.positions[anchor, rank[rank < k]] = candidate
            return result
        width = min(n_candidates, 4 * width)


def _rank_within(codes: IntArray, n_codes: int) -> IntArray:
    """The place of each entry among its equals, for sorted codes below `n_codes`."""
    starts = np.searchsorted(codes, np.arange(n_codes))
    return np.arange(len(codes)) - starts[codes]
