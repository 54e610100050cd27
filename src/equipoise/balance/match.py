"""Score -> matches: for every example the nearest of each other label, in its environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from equipoise.balance.distances import FloatArray, IntArray, Metric, Scores, get_metric
from equipoise.balance.engines.choice import check_engine
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_input import (
    check_caliper,
    check_codes,
    check_count,
    check_labels,
    check_log_scores,
)
from equipoise.balance.match_reuse import limit_reuse
from equipoise.balance.match_stratum import Distinct, Stratum
from equipoise.balance.matches import Matches


def match_scores(
    log_scores: Any,
    labels: Any,
    environments: Any = None,
    *,
    metric: str = "kl",
    k: int = 1,
    caliper: float | None = None,
    reuse_max: int | None = None,
    n_jobs: int = 1,
    generator: np.random.Generator | None = None,
    engine: str = "auto",
) -> Matches:
    """Match every example with its k nearest of each other label, within its environment.

    Step 5 of the method: nearest by the distance of balancing scores. The answer is exact and
    does not depend on engine or threads. Ties go to the lowest index, or at random with a
    generator. A candidate at infinite KL is a match like any other unless a caliper is set.

    Parameters
    ----------
    log_scores : array-like or tensor [N, m], normalised log-probabilities; −inf is legal
    labels : integer codes [N] in 0 … m−1
    environments : integer codes [N]; None means a single environment
    metric : "l1", "l2", "linf" (on probabilities) or "kl", KL(anchor‖candidate)
    k : how many matches for each label
    caliper : the largest distance of a match
    reuse_max : in how many anchors' lists a candidate may stand; the closest pairs win
    n_jobs : threads over (environment, label) strata
    generator : breaks ties at random
    engine : "auto", or the name of one engine

    >>> scores = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> match_scores(scores, [0, 1, 1]).indices[..., 0]
    array([[-1,  1],
           [ 0, -1],
           [ 0, -1]])
    """
    search = _Search(get_metric(metric), k, caliper, reuse_max, engine)
    scores = check_log_scores(log_scores)
    n, m = scores.shape
    label_codes = check_labels(labels, n, m)
    if environments is None:
        environments = np.zeros(n, dtype=np.int64)
    environment_codes = check_codes("environments", environments, n)
    order = np.arange(n) if generator is None else generator.permutation(n)

    indices = np.full((n, m, k), -1, dtype=np.int64)
    distances = np.full((n, m, k), np.inf)
    for environment in np.unique(environment_codes):
        rows = order[environment_codes[order] == environment]
        task = _Environment(search, Scores.from_log(scores[rows]), label_codes[rows])
        present = np.unique(task.labels)
        found = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(task.match)(int(label)) for label in present
        )
        for label, (anchors, nearest) in zip(present, found, strict=True):
            absent = nearest.positions < 0
            indices[rows[anchors], label] = np.where(absent, -1, rows[nearest.positions])
            distances[rows[anchors], label] = nearest.distances
    return Matches(indices, distances, metric)


@dataclass(frozen=True)
class _Search:
    """What is looked for, the same in every stratum."""

    metric: Metric
    k: int
    caliper: float | None
    reuse_max: int | None
    engine: str

    def __post_init__(self) -> None:
        check_count("k", self.k)
        if self.reuse_max is not None:
            check_count("reuse_max", self.reuse_max)
        check_caliper(self.caliper)
        check_engine(self.engine)


class _Environment:
    """The examples of one environment; distinct scores are searched once."""

    def __init__(self, search: _Search, scores: Scores, labels: IntArray) -> None:
        self.search, self.scores, self.labels = search, scores, labels
        self._distinct = Distinct.of(search.metric.key(scores))

    def match(self, label: int) -> tuple[IntArray, Nearest]:
        """Anchors of all other labels and their matches of `label`, as rows of the environment."""
        search = self.search
        anchors = np.flatnonzero(self.labels != label)
        candidates = np.flatnonzero(self.labels == label)
        if not len(anchors):
            return anchors, Nearest.empty(0, search.k)
        stratum = Stratum(search.metric, self.scores.take(candidates), search.engine)
        if search.reuse_max is None:
            nearest = self._nearest(stratum, anchors, search.k)
        else:
            nearest = limit_reuse(
                lambda some, width: self._nearest(stratum, anchors[some], width),
                len(anchors),
                len(candidates),
                search.k,
                search.reuse_max,
            )
        return anchors, _within(nearest, candidates, search.caliper)

    def _nearest(self, stratum: Stratum, anchors: IntArray, k: int) -> Nearest:
        if self._distinct.all_differ:
            return stratum.nearest(self.scores.take(anchors), k)
        groups, which = np.unique(self._distinct.inverse[anchors], return_inverse=True)
        found = stratum.nearest(self.scores.take(self._distinct.first[groups]), k)
        return Nearest(found.distances[which], found.positions[which])


def _within(nearest: Nearest, candidates: IntArray, caliper: float | None) -> Nearest:
    """Positions as rows of the environment, without those beyond the caliper."""
    absent = nearest.positions < 0
    if caliper is not None:
        absent |= nearest.distances > caliper
    rows = np.where(absent, -1, candidates[nearest.positions])
    distances: FloatArray = np.where(absent, np.inf, nearest.distances)
    return Nearest(distances, rows)
