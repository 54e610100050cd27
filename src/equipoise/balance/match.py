"""The matching, step 5 of the method: the nearest of each other label in the environment."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.balance.distances import FloatArray, IntArray, get_metric, pair_distances
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.matches import Matches, MatchReport, check_tolerance
from equipoise.balance.scores import (
    ScoredExamples,
    check_codes,
    check_labels,
    check_support,
    open_scores,
    split_by,
)
from equipoise.balance.strata import Engines, Environment, Portions
from equipoise.checks import (
    check_array,
    check_count,
    check_device,
    check_flag,
    check_jobs,
    check_memory,
    check_number,
    check_type,
    show,
)

#: The most matches of a label that may be asked for.
MOST_NEAREST = 10_000
#: Scores nearer than this share of their mean distance from the environment's are near-ties …
NEAR_SHARE = 0.05
#: … and so are those nearer than this.
NEAR = 0.01


def match_scores(
    log_scores: Any,
    labels: Any,
    environments: Any = None,
    *,
    metric: str = "kl",
    n_nearest: int = 1,
    tolerance: float | None = None,
    caliper: float | str | None = None,
    reuse_max: int | None = None,
    common_support: bool | float | str = False,
    exact: Any = None,
    n_jobs: int = 1,
    generator: np.random.Generator | None = None,
    engine: str = "auto",
    device: str | None = None,
    memory: int | None = None,
    on_disk: bool = False,
) -> Matches:
    """Match every example with its `n_nearest` of each other label, within its environment.

    Step 5 of the method: nearest by the distance of balancing scores. The answer is exact and
    does not depend on engine, threads or memory. Ties go to the lowest index, or at random with
    a generator. A candidate at infinite KL is a match like any other unless a caliper is set.

    Parameters
    ----------
    log_scores : array-like, tensor, memmap or path of an .npy or .parquet file
        Normalised log-probabilities [N, m]; −inf is legal.
    labels : array of int [N]
        Codes in 0 … m−1.
    environments : array of int [N], optional
        None means a single environment.
    metric : str
        "l1", "l2", "linf" (on probabilities) or "kl", KL(anchor‖candidate).
    n_nearest : int
        Matches kept for each label.
    tolerance : float, optional
        Matches farther than this are dropped, but never the nearest.
    caliper : float or str, optional
        The largest distance of a match, or "0.2sd": standard deviations of the logit.
    reuse_max : int, optional
        In how many anchors' lists a candidate may stand; the closest pairs win.
    common_support : bool or float
        True drops examples outside the labels' common score range; a number, those to which
        some label of the environment gives less probability than that.
    exact : array of int [N], optional
        Codes that an example and its matches must share, such as sex.
    n_jobs : int
        Threads over (environment, label) strata, or what `joblib.parallel_config` says.
    generator : Generator, optional
        Breaks ties at random.
    engine : str
        "auto", or the name of one engine.
    device : str, optional
        A torch device for block products, such as "cuda".
    memory : int, optional
        Bytes the search may use besides its input and its answer.
    on_disk : bool
        Keep the answer in a temporary file, which vanishes with it.

    >>> scores = np.log([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> match_scores(scores, [0, 1, 1]).indices[..., 0]
    array([[-1,  1],
           [ 0, -1],
           [ 0, -1]])
    """
    started = time.perf_counter()
    check_type("generator", generator, (np.random.Generator, type(None)))
    if n_jobs is not None:
        check_jobs("n_jobs", n_jobs)
    if device is not None:
        check_device("device", device)
    if memory is not None:
        check_count("memory", memory, most=2**60)
    check_matching(metric, n_nearest, tolerance, caliper, reuse_max, common_support)
    # With a cap on reuse, say, the first match that is left may lie beyond the tolerance.
    limit = Caliper.parse(caliper)
    first_is_nearest = reuse_max is None and (limit is None or not limit.in_deviations)
    within = tolerance if first_is_nearest else None
    search = Search(get_metric(metric), n_nearest, engine, device, tolerance=within)
    source = open_scores(log_scores)
    n, m = source.shape
    examples = ScoredExamples.read(source, labels, environments, exact, common_support, generator)
    codes, order = examples.labels, examples.order
    jobs = effective_n_jobs(n_jobs)
    places = split_by(examples.environments[order], order)
    portions = Portions.within(memory, m, n_nearest, jobs, max(map(len, places)))

    if not check_flag("on_disk", on_disk):
        hint = "take a smaller n_nearest"
        what = f"the matches of {n:,} examples, {m} labels"
        check_memory(what, 16.0 * n * m * n_nearest, hint=hint)
    indices = _make_table((n, m, n_nearest), -1, np.int64, on_disk)
    distances = _make_table((n, m, n_nearest), np.inf, np.float64, on_disk)
    engines: Counter[str] = Counter()
    recalls: list[float] = []
    spaces = (Environment(search, source, rows, codes, portions) for rows in places if len(rows))
    with threadpool_limits(1, user_api="blas"):  # blocks are too small to share; n_jobs is for that
        for space in spaces:
            step = len(space.present) if memory is None else jobs  # answers that wait at once
            for start in range(0, len(space.present), step):
                some = space.present[start : start + step]
                found = Parallel(n_jobs=n_jobs, prefer="threads", max_nbytes=None)(
                    delayed(_match)(space, int(label), reuse_max, limit, tolerance)
                    for label in some
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


def choose_tolerance(log_scores: FloatArray, environments: IntArray, metric: str = "kl") -> float:
    """How far near-ties are apart: 5 % of the mean distance of a score from its environment's.

    By KL that distance is the mutual information of label and covariate. Where there is much to
    balance, smaller differences are mostly errors of the score, and obeying them reuses few
    examples. Never below 0.01.

    >>> choose_tolerance(np.log([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 0]))
    0.01
    """
    counts = np.bincount(environments)
    sums = [np.bincount(environments, column) for column in np.exp(log_scores).T]
    with np.errstate(divide="ignore"):
        means = np.log(np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None])
    return max(
        NEAR, NEAR_SHARE * float(pair_distances(metric, log_scores, means[environments]).mean())
    )


def check_matching(
    metric: str,
    n_nearest: int,
    tolerance: float | None,
    caliper: float | str | None,
    reuse_max: int | None,
    common_support: bool | float | str | None,
) -> None:
    """Refuse settings of `match_scores` that no data could make right."""
    get_metric(metric)
    check_count("n_nearest", n_nearest, most=MOST_NEAREST)
    if tolerance is not None:
        check_tolerance(tolerance)
    Caliper.parse(caliper)
    check_support(common_support)
    if reuse_max is not None:
        check_count("reuse_max", reuse_max)


def _match(
    space: Environment,
    label: int,
    reuse_max: int | None,
    caliper: Caliper | None,
    tolerance: float | None,
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
    if tolerance is not None:
        beyond = nearest.distances > tolerance
        beyond[:, 0] = False
        nearest.distances[beyond], nearest.positions[beyond] = np.inf, -1
    return space.rows[places], nearest, engines


def _make_table(shape: tuple[int, ...], fill: float, dtype: Any, on_disk: bool) -> NDArray[Any]:
    """A table in memory, or in a nameless file that vanishes with it."""
    if not on_disk:
        return np.full(shape, fill, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        table = np.memmap(file, dtype=dtype, mode="w+", shape=shape)
    table[:] = fill
    return table


def _close_ranks(nearest: Nearest) -> None:
    """Move what is left of a list to its front."""
    order = np.argsort(nearest.positions < 0, axis=1, kind="stable")
    nearest.distances[:] = np.take_along_axis(nearest.distances, order, axis=1)
    nearest.positions[:] = np.take_along_axis(nearest.positions, order, axis=1)


@dataclass(frozen=True)
class Caliper:
    """A limit on matches. `in_deviations` counts standard deviations of the logit.

    >>> Caliper.parse("0.2sd")
    Caliper(limit=0.2, in_deviations=True)
    """

    limit: float
    in_deviations: bool = False

    @classmethod
    def parse(cls, caliper: float | str | None) -> Caliper | None:
        if caliper is None:
            return None
        if isinstance(caliper, str):
            found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*sd\s*", caliper)
            try:
                limit = float(found[1]) if found else -1.0
            except ValueError:
                limit = -1.0
        else:
            limit = check_number("caliper", caliper)
        if not limit >= 0:
            raise ValueError(
                f"caliper must be a distance of at least 0, or standard deviations of the logit "
                f"such as '0.2sd'; got {caliper!r}"
            )
        return cls(limit, isinstance(caliper, str))


def beyond_deviations(
    space: Environment, anchors: IntArray, nearest: Nearest, label: int, limit: float
) -> NDArray[np.bool_]:
    """Which matches of `label` are more than `limit` standard deviations away in the logit.

    The logit of an anchor of label y and a match of label y' is log p(y'|z) − log p(y|z):
    with two labels the logit of the propensity score. Its deviation is taken over the examples
    of these two labels where it is finite.
    """
    far = np.zeros(nearest.positions.shape, dtype=bool)
    own = space.labels[anchors]
    for other in np.unique(own):
        both = np.concatenate([_places(space, int(other)), _places(space, label)])
        logit = _logit(space, both, label, int(other))
        finite = logit[np.isfinite(logit)]
        deviation = finite.std(ddof=1) if len(finite) > 1 else 0.0
        rows = np.flatnonzero(own == other)
        place = np.empty(len(space.rows))
        place[both] = logit
        with np.errstate(invalid="ignore"):
            first, second = place[anchors[rows], None], place[nearest.positions[rows]]
            gaps = np.where(first == second, 0.0, np.abs(first - second))
        far[rows] = ~(gaps <= limit * deviation)
    return far


def _places(space: Environment, label: int) -> IntArray:
    part = space.slice_of(label)
    return np.arange(part.start, part.stop)


def _logit(space: Environment, places: IntArray, label: int, other: int) -> FloatArray:
    log = space.read(places).log
    with np.errstate(invalid="ignore"):
        return np.asarray(log[:, label] - log[:, other])


def match_covariate(
    covariate: ArrayLike,
    labels: ArrayLike,
    environments: ArrayLike,
    *,
    n_labels: int | None = None,
    n_nearest: int = 20,
    generator: np.random.Generator,
) -> Matches:
    """For every example random others of each other label with its very covariate value.

    The same environment, distance 0. `companions` are random examples of its own label and
    covariate, for the degree of balancing of Figure 4a.

    >>> found = match_covariate([5, 5, 7], [0, 1, 1], [0, 0, 0], generator=np.random.default_rng(0))
    >>> found.indices[:, :, 0]
    array([[-1,  1],
           [ 0, -1],
           [-1, -1]])
    """
    check_type("generator", generator, np.random.Generator)
    try:
        values = check_array("covariate", covariate)
        _, value_codes = np.unique(values, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"covariate must hold values that can be sorted: {error}") from error
    if value_codes.ndim != 1 or values.ndim != 1:
        raise ValueError(f"covariate must be one-dimensional, got {show(covariate)}")
    n = len(value_codes)
    if n == 0:
        raise ValueError("covariate is empty: there is nothing to match")
    check_count("n_nearest", n_nearest, most=MOST_NEAREST)
    label_codes = check_codes("labels", labels, n)
    m = n_labels or int(label_codes.max()) + 1
    label_codes = check_labels(labels, n, m)
    environment_codes = check_codes("environments", environments, n)
    hint = "take a smaller n_nearest"
    check_memory(f"the matches of {n:,} examples, {m} labels", 16.0 * n * m * n_nearest, hint=hint)
    indices = np.full((n, m, n_nearest), -1, dtype=np.int64)
    companions = np.empty((n, n_nearest), dtype=np.int64)
    for environment in np.unique(environment_codes):
        for value in np.unique(value_codes[environment_codes == environment]):
            here = np.flatnonzero((environment_codes == environment) & (value_codes == value))
            for label in range(m):
                cell = here[label_codes[here] == label]
                if len(cell) == 0:
                    continue
                others = here[label_codes[here] != label]
                width = min(n_nearest, len(cell))
                indices[others, label, :width] = _draw_rows(cell, len(others), width, generator)
                companions[cell] = generator.choice(cell, size=(len(cell), n_nearest))
    distances = np.where(indices >= 0, 0.0, np.inf)
    return Matches(indices, distances, "covariate", companions)


def _draw_rows(
    cell: NDArray[np.int64], n_rows: int, width: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """`width` different members of the cell for each row [n_rows, width]."""
    chosen = np.empty((n_rows, width), dtype=np.int64)
    block = max(1, 2**22 // len(cell))  # random keys of a block at a time, to bound memory
    for first in range(0, n_rows, block):
        keys = generator.random((min(block, n_rows - first), len(cell)), dtype=np.float32)
        places = np.argpartition(keys, width - 1, axis=1)[:, :width]
        chosen[first : first + block] = cell[places]
    return chosen
