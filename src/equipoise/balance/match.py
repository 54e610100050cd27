"""The matching: of each other label, the example of the same environment with the nearest score."""

from __future__ import annotations

import re
import tempfile
import time
from collections import Counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.balance.distances import FloatArray, IntArray, get_metric, pair_distances
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.matches import Matches, MatchReport, drop_far
from equipoise.balance.scores import (
    check_codes,
    check_labels,
    check_support,
    open_scores,
    read_examples,
    split_by,
)
from equipoise.balance.strata import Engines, Environment, count_portions
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

    The answer is exact and does not depend on engine, threads or memory. Ties go to the lowest
    index. A candidate at infinite KL is a match like any other unless a caliper is set.

    Parameters
    ----------
    log_scores : array-like, tensor, memmap or path of an .npy or .parquet file
        Normalised log-probabilities [N, m]; −inf is legal.
    labels, environments : array of int [N]
        Labels are codes in 0 … m−1; None means a single environment.
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
    engine, device : str, optional
        "auto" or the name of one engine; a torch device for block products, such as "cuda".
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
    limit, in_deviations = read_caliper(caliper)
    within = tolerance if reuse_max is None and not in_deviations else None
    search = Search(get_metric(metric), n_nearest, engine, device, tolerance=within)
    source = open_scores(log_scores)
    n, m = source.shape
    codes, where, _, order = read_examples(
        source, labels, environments, exact, common_support, generator
    )
    jobs = effective_n_jobs(n_jobs)
    places = split_by(where[order], order)
    portions = count_portions(memory, m, n_nearest, jobs, max(map(len, places)))

    if not check_flag("on_disk", on_disk):
        _check_table(n, m, n_nearest)
    indices = _make_table((n, m, n_nearest), -1, np.int64, on_disk)
    distances = _make_table((n, m, n_nearest), np.inf, np.float64, on_disk)
    engines: Counter[str] = Counter()
    recalls: list[float] = []

    def match(space: Environment, label: int) -> tuple[IntArray, Nearest, Engines]:
        """Examples of other labels and their matches of `label` within the caliper."""
        anchors, nearest, used = space.match(label, reuse_max)
        if caliper is not None:
            if in_deviations:
                far = beyond_deviations(space, anchors, nearest, label, limit)
                nearest.distances[far], nearest.positions[far] = np.inf, -1
                order = np.argsort(nearest.positions < 0, axis=1, kind="stable")
                for part in (nearest.distances, nearest.positions):
                    part[:] = np.take_along_axis(part, order, axis=1)
            else:
                drop_far(nearest.positions, nearest.distances, limit)
        if tolerance is not None:
            drop_far(nearest.positions, nearest.distances, tolerance, but_first=True)
        return space.rows[anchors], nearest, used

    spaces = (Environment(search, source, rows, codes, portions) for rows in places if len(rows))
    with threadpool_limits(1, user_api="blas"):  # blocks are too small to share; n_jobs is for that
        for space in spaces:
            step = len(space.present) if memory is None else jobs  # answers that wait at once
            for start in range(0, len(space.present), step):
                some = space.present[start : start + step]
                found = Parallel(n_jobs=n_jobs, prefer="threads", max_nbytes=None)(
                    delayed(match)(space, int(label)) for label in some
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

    >>> choose_tolerance(np.log([[0.5, 0.5], [0.5, 0.5]]), np.array([0, 0]))
    0.01
    """
    counts = np.bincount(environments)
    sums = [np.bincount(environments, column) for column in np.exp(log_scores).T]
    with np.errstate(divide="ignore"):
        means = np.log(np.stack(sums, axis=1) / np.maximum(counts, 1)[:, None])
    typical = float(pair_distances(metric, log_scores, means[environments]).mean())
    return max(NEAR, NEAR_SHARE * typical)


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
        check_number("tolerance", tolerance, least=0.0)
    read_caliper(caliper)
    check_support(common_support)
    if reuse_max is not None:
        check_count("reuse_max", reuse_max)


def _check_table(n: int, m: int, n_nearest: int) -> None:
    what = f"the matches of {n:,} examples, {m} labels"
    check_memory(what, 16.0 * n * m * n_nearest, hint="take a smaller n_nearest")


def _make_table(shape: tuple[int, ...], fill: float, dtype: Any, on_disk: bool) -> NDArray[Any]:
    """A table in memory, or in a nameless file that vanishes with it."""
    if not on_disk:
        return np.full(shape, fill, dtype=dtype)
    with tempfile.TemporaryFile() as file:
        table = np.memmap(file, dtype=dtype, mode="w+", shape=shape)
    table[:] = fill
    return table


def read_caliper(caliper: float | str | None) -> tuple[float, bool]:
    """The limit on matches, and whether it counts standard deviations of the logit.

    >>> read_caliper("0.2sd")
    (0.2, True)
    """
    if caliper is None:
        return np.inf, False
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
    return limit, isinstance(caliper, str)


def beyond_deviations(
    space: Environment, anchors: IntArray, nearest: Nearest, label: int, limit: float
) -> NDArray[np.bool_]:
    """Which matches are over `limit` standard deviations away in the logit of the two labels."""
    far = np.zeros(nearest.positions.shape, dtype=bool)
    own = space.labels[anchors]
    for other in np.unique(own):
        both = np.concatenate([space.places_of(other), space.places_of(label)])
        log = space.read(both).log
        with np.errstate(invalid="ignore"):
            logit = log[:, label] - log[:, other]
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
    _check_table(n, m, n_nearest)
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


def _draw_rows(cell: IntArray, n_rows: int, width: int, generator: np.random.Generator) -> IntArray:
    """`width` different members of the cell for each row [n_rows, width]."""
    chosen = np.empty((n_rows, width), dtype=np.int64)
    block = max(1, 2**22 // len(cell))  # random keys of a block at a time, to bound memory
    for first in range(0, n_rows, block):
        keys = generator.random((min(block, n_rows - first), len(cell)), dtype=np.float32)
        places = np.argpartition(keys, width - 1, axis=1)[:, :width]
        chosen[first : first + block] = cell[places]
    return chosen
