"""Against faiss at m = 10: time for KL, and agreement with float64 for KL and L2.

In processor seconds of one thread. Ours include building the engine, and a tenth of choosing
it: that is done once for the ten strata of a matching.
Needs the extra `equipoise[faiss]`; without it there is nothing to compare with.
"""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.match_setting import describe_machine, make_scores, time_of
from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.direct import DirectEngine

M = 10


def run(quick: bool) -> None:
    if find_spec("faiss") is None:
        print("faiss is not installed: pip install 'equipoise[faiss]'")
        return
    n = 20_000 if quick else 200_000
    print(describe_machine())
    print(f"one stratum of N={n:,}, m={M}: {n - n // M:,} anchors, {n // M:,} candidates, one core")
    with threadpool_limits(1):
        for spread in (1.0, 8.0):
            log, labels = make_scores(n, M, spread)
            anchors, candidates = (
                Scores.from_log(log[labels != 0]),
                Scores.from_log(log[labels == 0]),
            )
            for metric in ("kl", "l2"):
                _compare(metric, spread, anchors, candidates)


def _compare(metric: str, spread: float, anchors: Scores, candidates: Scores) -> None:
    import faiss

    faiss.omp_set_num_threads(1)
    if metric == "kl":
        rows, queries = candidates.log.astype(np.float32), anchors.prob.astype(np.float32)
        index = faiss.IndexFlatIP(M)
    else:
        rows, queries = candidates.prob.astype(np.float32), anchors.prob.astype(np.float32)
        index = faiss.IndexFlatL2(M)
    index.add(rows)
    theirs, (_, found) = time_of(lambda: index.search(queries, 1), clock=time.thread_time)
    search = Search(get_metric(metric))
    choosing, _ = time_of(lambda: search.engine_for(candidates, anchors, 1), clock=time.thread_time)
    ours, nearest = time_of(
        lambda: search.engine_for(candidates, anchors, 1).nearest(anchors, 1),
        clock=time.thread_time,
    )
    ours += choosing / M
    sample = slice(None, None, max(1, len(anchors) // 500))
    exact = DirectEngine(get_metric(metric), candidates).nearest(anchors.take(sample), 1)
    agree = np.mean(found[sample, 0] == exact.positions[:, 0])
    mine = np.mean(nearest.positions[sample, 0] == exact.positions[:, 0])
    name = type(index).__name__
    engine = next(iter(search.chosen.values()))
    print(
        f"{metric:3} spread {spread:g}: {name} {theirs:6.2f} s, agrees with float64 {agree:.4f}; "
        f"ours ({engine}) {ours:6.2f} s, agrees {mine:.4f}: {theirs / ours:.1f}× as fast",
        flush=True,
    )
