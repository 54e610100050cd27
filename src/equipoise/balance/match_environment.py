"""One environment: its examples in order of label, so that anchors and candidates are slices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from equipoise.balance.distances import IntArray, Scores
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.kernels import prepare
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_reuse import limit_reuse
from equipoise.balance.match_source import ScoreSource
from equipoise.balance.match_stratum import Distinct, Stratum

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
            return anchors, Nearest.empty(0, self.search.k), engines
        if reuse_max is None:
            nearest = self._nearest(mine, anchors, self.search.k, engines)
        else:
            anchors = anchors[np.argsort(self.arrival[anchors])]
            nearest = limit_reuse(
                lambda some, width: self._nearest(mine, anchors[some], width, engines),
                len(anchors),
                mine.stop - mine.start,
                self.search.k,
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
