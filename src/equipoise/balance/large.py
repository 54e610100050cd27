"""Matches of large datasets: a table where it fits, else made on demand or kept in a file."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from equipoise.balance.distances import FloatArray, IntArray, Scores, ScoresOfRows, get_metric
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.kernels import Factors, prepare
from equipoise.balance.match import match_scores
from equipoise.balance.matches import BoolArray, Matches, drop_far
from equipoise.balance.scores import check_labels, open_scores, read_examples, split_by
from equipoise.balance.strata import Distinct, Stratum
from equipoise.checks import check_count, check_number, measure_free_memory
from equipoise.progress import track

DEFAULT_MEMORY = 2 << 30
#: The share of the free memory that a table of matches may take.
MEMORY_SHARE = 0.25
#: Labels of pairs that may have to be measured for a table: about half a minute of one core.
MOST_MEASURED = 2 * 10**9
_ENTRIES_AT_ONCE = 1 << 18
_STRATA_AT_ONCE = 256  # between two steps of the progress bar


def find_matches(
    log_scores: Any,
    labels: Any,
    environments: Any = None,
    *,
    n_nearest: int = 1,
    caliper: float | str | None = None,
    reuse_max: int | None = None,
    memory: int | None = None,
    verbose: bool = False,
    **settings: Any,
) -> Matches | LazyMatches:
    """Match as `match_scores` does, in a form that fits into memory.

    A table of all matches if it fits into `memory` and can be made in minutes. Otherwise matches
    on demand, or a table in a temporary file where an option needs to see all of them at once
    (`reuse_max`, a caliper in standard deviations). A sampler does not see the difference.

    Parameters
    ----------
    log_scores, labels, environments, n_nearest, caliper, reuse_max
        As for `match_scores`.
    memory : int, optional
        Bytes for the table; a quarter of the free memory by default.
    verbose : bool
        Show progress.
    **settings
        Further settings of `match_scores`: metric, tolerance, common_support, exact, n_jobs,
        generator.

    >>> scores = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> find_matches(scores, [0, 1, 1], memory=1)
    LazyMatches(3 examples, 2 labels, n_nearest=1, metric='kl', 0 strata ready)
    """
    check_count("n_nearest", n_nearest)
    budget = (
        int(MEMORY_SHARE * measure_free_memory())
        if memory is None
        else check_count("memory", memory, least=0, most=1 << 62)
    )
    shape = open_scores(log_scores, check=False).shape
    codes = check_labels(labels, *shape)
    width = min(n_nearest, int(np.bincount(codes).max()))
    table = shape[0] * shape[1] * width * 16
    settings = {**settings, "n_nearest": width, "caliper": caliper}
    at_once = reuse_max is not None or isinstance(caliper, str)
    quick = at_once or shape[0] * shape[1] ** 2 * width <= MOST_MEASURED
    fits = table <= budget and quick
    if not fits and not at_once:
        return LazyMatches(
            log_scores, codes, environments, memory=budget // 2, verbose=verbose, **settings
        )
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if not fits and table > 0.8 * free:
        raise ValueError(
            f"the table of matches takes {table / 1e9:,.1f} GB, more than the memory and the "
            f"{free / 1e9:,.1f} GB of {tempfile.gettempdir()}: lower n_nearest, or leave out "
            "reuse_max and a caliper in standard deviations, so that matches are made on demand"
        )
    return match_scores(
        log_scores, codes, environments, reuse_max=reuse_max, on_disk=not fits, **settings
    )


class LazyMatches:
    """Answers `lookup` and `has_match` as a table of matches would, by searching on demand.

    Strata (environment, label) stay ready in up to `memory` bytes: built `ahead`, while the
    scores are checked, or when first asked for (by default where scores are in a file). Ask
    for many anchors at once: each stratum is then visited once for all of them.

    >>> matches = LazyMatches(np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]), [0, 1, 1])
    >>> matches.lookup(np.array([0, 2]), np.array([[1], [0]])).ravel()
    array([1, 0])
    """

    companions: IntArray | None = None

    def __init__(
        self,
        log_scores: Any,
        labels: Any,
        environments: Any = None,
        *,
        metric: str = "kl",
        n_nearest: int = 1,
        tolerance: float | None = None,
        caliper: float | None = None,
        common_support: bool | float | str = False,
        exact: Any = None,
        n_jobs: int = 1,
        generator: np.random.Generator | None = None,
        engine: str = "auto",
        device: str | None = None,
        memory: int = DEFAULT_MEMORY,
        ahead: bool | None = None,
        verbose: bool = False,
    ) -> None:
        self._search = Search(get_metric(metric), n_nearest, engine, device, True, tolerance)
        if tolerance is not None:
            check_number("tolerance", tolerance, least=0.0)
        if caliper is not None and not (isinstance(caliper, (int, float)) and caliper >= 0):
            raise ValueError(f"caliper must be a distance of at least 0, got {caliper!r}")
        self._source = open_scores(log_scores, check=ahead is False)
        self._labels, where, self._supported, order = read_examples(
            self._source, labels, environments, exact, common_support, generator
        )
        _, self._environment = np.unique(where, return_inverse=True)
        self._tolerance, self._caliper = tolerance, caliper
        self._n_jobs, self.memory = n_jobs, memory
        # Members of each stratum in order of index, or at random, and where each stratum begins.
        m = self._source.shape[1]
        stratum = self._environment * m + self._labels
        self._members = order[np.argsort(stratum[order], kind="stable")]
        n_strata = (int(self._environment.max()) + 1) * m
        self._starts = np.searchsorted(stratum[self._members], np.arange(n_strata + 1))
        self._cache: dict[int, Stratum] = {}
        self._n_cached = 0
        self._lock = threading.Lock()
        self._blas = ThreadpoolController()
        if ahead or (ahead is None and not self._source.on_disk):
            self._build_all(verbose)

    @property
    def metric(self) -> str:
        return self._search.metric.name

    @property
    def n_nearest(self) -> int:
        return self._search.n_nearest

    def __len__(self) -> int:
        return self._source.shape[0]

    def __repr__(self) -> str:
        n, m = self._source.shape
        return (
            f"LazyMatches({n:,} examples, {m} labels, n_nearest={self.n_nearest}, "
            f"metric={self.metric!r}, {len(self._cache)} strata ready)"
        )

    def lookup(self, anchors: Any, labels: Any) -> IntArray:
        """Matches of `anchors` [B] in the `labels` [B, a] asked of each: [B, a, k], −1 for none."""
        if self._caliper is not None or (self._tolerance is not None and self.n_nearest > 1):
            return self.lookup_with_distances(anchors, labels)[0]
        return self._find(np.asarray(anchors), np.asarray(labels))

    def lookup_with_distances(self, anchors: Any, labels: Any) -> tuple[IntArray, FloatArray]:
        """The same, with the distances; inf where there is no match."""
        who = np.asarray(anchors)
        found = self._find(who, np.asarray(labels))
        distances = np.full(found.shape, np.inf)
        places = np.argwhere(found >= 0)
        step = max(1, _ENTRIES_AT_ONCE // self._source.shape[1])
        for start in range(0, len(places), step):
            row, asked, rank = places[start : start + step].T
            p, q = self._source.read(who[row]), self._source.read(found[row, asked, rank])
            distances[row, asked, rank] = self._search.metric.distance(p, q)
        if self._caliper is not None:
            drop_far(found, distances, self._caliper)
        if self._tolerance is not None:
            drop_far(found, distances, self._tolerance, but_first=True)
        return found, distances

    def take(self, anchors: Any) -> Matches:
        """The table [B, m, n_nearest] of some anchors, searched now."""
        every = np.tile(np.arange(self._source.shape[1]), (len(anchors), 1))
        return Matches(*self.lookup_with_distances(anchors, every), self.metric)

    def has_match(self, anchors: Any) -> BoolArray:
        """For which labels each of `anchors` [B] has a match: [B, m]; a caliper is searched."""
        who = np.asarray(anchors)
        if self._caliper is not None:
            return np.asarray(self.take(who).indices[:, :, 0] >= 0)
        result: BoolArray = self._present[self._environment[who]]
        result[np.arange(len(who)), self._labels[who]] = False
        result[~self._supported[who]] = False
        return result

    @property
    def _present(self) -> BoolArray:
        """Which labels each environment has [E, m]."""
        return (np.diff(self._starts) > 0).reshape(-1, self._source.shape[1])

    @property
    def matched(self) -> BoolArray:
        """Which examples [N] have any match, as far as is known without searching a caliper."""
        n_present = self._present.sum(axis=1)
        return np.asarray((n_present[self._environment] > 1) & self._supported)

    def _find(self, anchors: IntArray, asked: IntArray) -> IntArray:
        n, m = self._source.shape
        who, what = np.repeat(anchors, asked.shape[1]), asked.reshape(-1)
        if who.size and (who.min() < 0 or who.max() >= n or what.min() < 0 or what.max() >= m):
            raise ValueError(f"anchors must lie in 0…{n - 1} and labels in 0…{m - 1}")
        found = np.empty((len(who), self.n_nearest), dtype=np.int64)
        step = max(1, asked.shape[1]) * max(1, self.memory // 4 // (24 * m))
        for start in range(0, len(who), step):
            part = slice(start, start + step)
            found[part] = self._answer(who[part], what[part])
        return found.reshape(*asked.shape, self.n_nearest)

    def _answer(self, who: IntArray, what: IntArray) -> IntArray:
        """Matches of each (anchor, label) pair; anchors are read once, whatever they ask."""
        result = np.full((len(who), self.n_nearest), -1, dtype=np.int64)
        anchors, row = np.unique(who, return_inverse=True)
        stratum = self._environment[who] * self._source.shape[1] + what
        stratum[(self._labels[who] == what) | ~self._supported[who]] = -1  # own label
        tasks = split_by(stratum, np.arange(len(who)))
        tasks = [part for part in tasks if len(part) and stratum[part[0]] >= 0]
        with self._workers() as work:
            scores = self._prepare(anchors, work)
            found = work(
                delayed(self._nearest)(int(stratum[part[0]]), scores, row[part]) for part in tasks
            )
        for part, positions in zip(tasks, found, strict=True):
            result[part] = positions
        return result

    @contextmanager
    def _workers(self) -> Iterator[Parallel]:
        """Threads that take tasks, each with a single thread of BLAS."""
        how: dict[str, Any] = {"require": "sharedmem", "batch_size": 16, "pre_dispatch": "all"}
        with (
            self._blas.limit(limits=1, user_api="blas"),
            Parallel(n_jobs=self._n_jobs, **how) as work,
        ):
            yield work

    def _prepare(self, anchors: IntArray, work: Parallel) -> Scores:
        """Scores of anchors with their factors, made in pieces that stay in cache."""
        step = max(1, _ENTRIES_AT_ONCE // self._source.shape[1])

        def make(start: int) -> tuple[Any, ...]:
            made = prepare(self._search.metric, self._source.read(anchors[start : start + step]))
            return made.log, made.prob, *made.factors

        parts = work(delayed(make)(start) for start in range(0, max(1, len(anchors)), step))
        log, prob, *factors = map(np.concatenate, zip(*parts, strict=True))
        return Scores(log, prob, Factors(*factors))

    def _nearest(self, stratum: int, scores: Scores, rows: IntArray) -> IntArray:
        members = self._members_of(stratum)
        if not len(members):
            return np.full((len(rows), self.n_nearest), -1, dtype=np.int64)
        ready = self._ready(stratum, members)
        anchors = ScoresOfRows(scores, rows, scores.factors.take(rows))
        found = ready.nearest(anchors, self.n_nearest, Distinct.all_of(len(rows))).positions
        ready.release(lambda positions: self._source.read(members[positions]))
        return np.where(found < 0, -1, members[found])

    def _members_of(self, stratum: int) -> IntArray:
        return self._members[self._starts[stratum] : self._starts[stratum + 1]]

    def _ready(self, stratum: int, members: IntArray) -> Stratum:
        with self._lock:
            if stratum in self._cache:
                return self._cache[stratum]
        made = Stratum(self._search, self._source.read(members))
        with self._lock:
            row = (4 if self.metric == "kl" else 20) * self._source.shape[1] + 64
            # When all is full what is there stays: strata are asked for in turn, and making
            # room for the next would throw out just what is asked for first again.
            if stratum not in self._cache and (self._n_cached + len(members)) * row <= self.memory:
                self._cache[stratum] = made
                self._n_cached += len(members)
        return made

    def _build_all(self, verbose: bool) -> None:
        """Read every stratum once, which checks its scores, and keep what memory allows."""
        strata = np.flatnonzero(np.diff(self._starts))
        step = _STRATA_AT_ONCE
        with (
            track(len(strata), "building strata", enabled=verbose) as tracker,
            self._workers() as work,
        ):
            for start in range(0, len(strata), step):
                some = strata[start : start + step]
                work(delayed(self._build)(int(stratum)) for stratum in some)
                tracker.reach(start + len(some))

    def _build(self, stratum: int) -> None:
        members = self._members_of(stratum)
        made = self._ready(stratum, members)
        if stratum in self._cache:
            made.build()
            made.release(lambda positions: self._source.read(members[positions]))


MatchSource = Matches | LazyMatches
