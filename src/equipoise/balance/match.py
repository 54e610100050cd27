"""Score -> matches: for every example the nearest of each other label, in its environment."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.balance.distances import IntArray, get_metric
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_caliper import Caliper, beyond_deviations
from equipoise.balance.match_environment import Engines, Environment, Portions
from equipoise.balance.match_input import check_codes, check_count, check_labels, refine, split_by
from equipoise.balance.match_source import open_scores
from equipoise.balance.match_statistics import MatchReport
from equipoise.balance.match_support import check_support, find_support
from equipoise.balance.matches import Matches


def match_scores(
    log_scores: Any,
    labels: Any,
    environments: Any = None,
    *,
    metric: str = "kl",
    k: int = 1,
    caliper: float | str | None = None,
    reuse_max: int | None = None,
    common_support: bool | float = False,
    exact: Any = None,
    n_jobs: int = 1,
    generator: np.random.Generator | None = None,
    engine: str = "auto",
    device: str | None = None,
    memory: int | None = None,
) -> Matches:
    """Match every example with its k nearest of each other label, within its environment.

    Step 5 of the method: nearest by the distance of balancing scores. The answer is exact and
    does not depend on engine, threads or memory. Ties go to the lowest index, or at random with
    a generator. A candidate at infinite KL is a match like any other unless a caliper is set.

    Parameters
    ----------
    log_scores : array-like, tensor, np.memmap or path of an .npy or .parquet file, [N, m]:
        normalised log-probabilities; −inf is legal
    labels : integer codes [N] in 0 … m−1
    environments : integer codes [N]; None means a single environment
    metric : "l1", "l2", "linf" (on probabilities) or "kl", KL(anchor‖candidate)
    k : how many matches for each label
    caliper : the largest distance of a match, or "0.2sd": standard deviations of the logit
    reuse_max : in how many anchors' lists a candidate may stand; the closest pairs win
    common_support : True leaves out examples outside the range of scores that all labels share;
        a number those to which some label of the environment gives less probability than that
    exact : integer codes [N] that an example and its matches must share, such as sex
    n_jobs : threads over (environment, label) strata, or what `joblib.parallel_config` says
    generator : breaks ties at random
    engine : "auto", or the name of one engine
    device : a torch device for block products, such as "cuda"
    memory : bytes the search may use besides its input and its answer

    >>> scores = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> match_scores(scores, [0, 1, 1]).indices[..., 0]
    array([[-1,  1],
           [ 0, -1],
           [ 0, -1]])
    """
    started = time.perf_counter()
    search = Search(get_metric(metric), k, engine, device)
    limit = Caliper.parse(caliper)
    if reuse_max is not None:
        check_count("reuse_max", reuse_max)
    source = open_scores(log_scores)
    n, m = source.shape
    codes = check_labels(labels, n, m)
    where = check_codes(
        "environments", np.zeros(n, int) if environments is None else environments, n
    )
    order = np.arange(n) if generator is None else generator.permutation(n)
    least = check_support(common_support)
    if common_support:
        order = order[find_support(source, codes, where, least)[order]]
    jobs = effective_n_jobs(n_jobs)
    places = split_by(refine(where, exact)[order], order)
    portions = Portions.within(memory, m, k, jobs, max(map(len, places)))

    indices = np.full((n, m, k), -1, dtype=np.int64)
    distances = np.full((n, m, k), np.inf)
    engines: Counter[str] = Counter()
    recalls: list[float] = []
    spaces = (Environment(search, source, rows, codes, portions) for rows in places if len(rows))
    with threadpool_limits(1, user_api="blas"):  # blocks are too small to share; n_jobs is for that
        for space in spaces:
            step = len(space.present) if memory is None else jobs  # answers that wait at once
            for start in range(0, len(space.present), step):
                some = space.present[start : start + step]
                found = Parallel(n_jobs=n_jobs, prefer="threads", max_nbytes=None)(
                    delayed(_match)(space, int(label), reuse_max, limit) for label in some
                )
                for label, (anchors, nearest, used) in zip(some, found, strict=True):
                    absent = nearest.positions < 0
                    indices[anchors, label] = np.where(absent, -1, space.rows[nearest.positions])
                    distances[anchors, label] = nearest.distances
                    engines.update(list(used))
                    recalls += [recall for recall in used.values() if recall is not None]
    recall = float(np.mean(recalls)) if recalls else None
    report = MatchReport(dict(engines), time.perf_counter() - started, n - len(order), recall)
    return Matches(indices, distances, metric, report=report)


def _match(
    space: Environment, label: int, reuse_max: int | None, caliper: Caliper | None
) -> tuple[IntArray, Nearest, Engines]:
    """Examples of other labels and their matches of `label` within the caliper."""
    places, nearest, engines = space.match(label, reuse_max)
    if caliper is not None and len(places):
        if caliper.in_deviations:
            far = beyond_deviations(space, places, nearest, label, caliper.limit)
        else:
            far = nearest.distances > caliper.limit
        nearest.distances[far], nearest.positions[far] = np.inf, -1
        _close_ranks(nearest)
    return space.rows[places], nearest, engines


def _close_ranks(nearest: Nearest) -> None:
    """Move what is left of a list to its front."""
    order = np.argsort(nearest.positions < 0, axis=1, kind="stable")
    nearest.distances[:] = np.take_along_axis(nearest.distances, order, axis=1)
    nearest.positions[:] = np.take_along_axis(nearest.positions, order, axis=1)
