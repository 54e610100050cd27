"""Matching against peers: the naive tensor, faiss, ColoredMNIST10 as a whole, DomainNet's shape.

`match-growth` has a module of its own; what it shares, scores and clocks, is here.
"""

from __future__ import annotations

import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.choice import Search
from equipoise.balance.engines.nearest import DirectEngine
from equipoise.balance.large import LazyMatches
from equipoise.balance.match import match_scores

METRICS = ("kl", "l1", "l2", "linf")


def make_scores(n: int, m: int, spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Softmax scores of independent normal logits, as log-scores [n, m], and labels [n]."""
    rng = np.random.default_rng(seed)
    log = rng.normal(size=(n, m))
    log *= spread
    log -= np.logaddexp.reduce(log, axis=1, keepdims=True)
    return log, rng.integers(0, m, n)


def colored_mnist10(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-scores, labels and environments of a model fitted to ColoredMNIST10's training part.

    Fitted once and kept in the temporary folder; quick stops the fit early.
    """
    steps = 60 if quick else 600
    kept = Path(tempfile.gettempdir()) / f"equipoise-benchmark-scores-{os.getuid()}-{steps}.npz"
    if not kept.exists():
        _fit(steps, kept)
    with np.load(kept) as saved:
        return saved["log_scores"], saved["labels"], saved["environments"]


def _fit(steps: int, kept: Path) -> None:
    from equipoise.balancer import CausalBalancer
    from equipoise.data import get_dataset, split_environments

    print(f"(fitting ColoredMNIST10 for {steps} steps, once)", flush=True)
    data = get_dataset("ColoredMNIST10")
    train = split_environments(data.environments).train
    train = train[np.asarray(data.environments)[train] < 2]
    subset = data.subset(train)
    balancer = CausalBalancer(max_steps=steps, n_nearest=1, random_state=0).fit(subset)
    part = kept.with_suffix(".part.npz")
    np.savez(
        part,
        log_scores=balancer.log_scores_,
        labels=np.asarray(subset.labels),
        environments=np.asarray(subset.environments),
    )
    part.replace(kept)


def time_of(
    function: Callable[[], Any], repeat: int = 1, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Any]:
    """The least seconds of some calls by a clock, and the last answer.

    `time.process_time` counts what was worked, whatever else the machine does meanwhile.
    """
    best = np.inf
    for _ in range(repeat):
        gc.collect()
        started = clock()
        answer = function()
        best = min(best, clock() - started)
    return best, answer


def memory_of(function: Callable[[], Any]) -> int:
    """The most bytes that a call held at once, beyond what was there before."""
    gc.collect()
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def describe_machine() -> str:
    blas = ", ".join(sorted({str(info["internal_api"]) for info in threadpool_info()}))
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {blas}"


def match_naively(log_anchors: np.ndarray, log_candidates: np.ndarray) -> np.ndarray:
    """The nearest by KL = Σ p·log(p/q), as the textbook has it: a tensor of all terms."""
    p, q = np.exp(log_anchors)[:, None], np.exp(log_candidates)[None]
    return (p * np.log(p / q)).sum(axis=2).argmin(axis=1)  # [n, n, m], twice


def run_naive(quick: bool) -> None:
    """Matching against the plain n×n×m tensor of differences: time and memory (KL, m = 10)."""
    n = 1_000 if quick else 5_000
    log, _ = make_scores(2 * n, 10, 1.0)
    labels = np.repeat([0, 1], n)

    def naive() -> np.ndarray:
        return np.concatenate(
            [match_naively(log[:n], log[n:]) + n, match_naively(log[n:], log[:n])]
        )

    def ours() -> np.ndarray:
        matches = match_scores(log, labels, n_jobs=2)
        return np.concatenate([matches.indices[:n, 1, 0], matches.indices[n:, 0, 0]])

    slow, expected = time_of(naive)
    fast, found = time_of(ours, repeat=5)
    large, small = memory_of(naive), memory_of(ours)
    print(describe_machine())
    print(f"{n:,} × {n:,} both ways, m=10, KL; same matches: {np.mean(expected == found):.4f}")
    print(f"naive   {slow:8.3f} s  {large / 2**20:8.1f} MiB")
    print(f"ours    {fast:8.3f} s  {small / 2**20:8.1f} MiB")
    print(f"ratio   {slow / fast:8.0f}×   {large / small:8.0f}×     (wanted: 150× and 100×)")


def run_colored(quick: bool) -> None:
    """The whole matching of ColoredMNIST10 on the scores of a fitted model, every metric."""
    scores, labels, environments = colored_mnist10(quick)
    print(describe_machine())
    print(f"{len(scores):,} examples × {scores.shape[1]} labels (wanted: under 2 s each)")
    for k in (1, 40):
        for metric in METRICS:
            busy, matches = time_of(
                lambda metric=metric, k=k: match_scores(
                    scores, labels, environments, metric=metric, n_nearest=k, n_jobs=2
                ),
                repeat=1 if quick else 2,
                clock=time.process_time,
            )
            seconds, engines = matches.report.seconds, ", ".join(matches.report.engines)
            print(
                f"k={k:<3} {metric:5} {seconds:6.2f} s, {busy:6.2f} processor seconds  ({engines})",
                flush=True,
            )


M = 10


def run_faiss(quick: bool) -> None:
    """Against faiss at m = 10: time for KL, and agreement with float64 for KL and L2.

    In processor seconds of one thread. Ours include building the engine, and a tenth of choosing
    it: that is done once for the ten strata of a matching.
    Needs the extra `equipoise[faiss]`; without it there is nothing to compare with.
    """
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
    engine = next(iter(search.chosen.values()), "blocked")
    print(
        f"{metric:3} spread {spread:g}: {name} {theirs:6.2f} s, agrees with float64 {agree:.4f}; "
        f"ours ({engine}) {ours:6.2f} s, agrees {mine:.4f}: {theirs / ours:.1f}× as fast",
        flush=True,
    )


LABELS, ENVIRONMENTS, ASKED = 345, 6, 5


def run_lazily(quick: bool) -> None:
    """DomainNet's shape, 6 × 98k examples and 345 labels: matches made when a batch asks."""
    print(describe_machine())
    for spread in (1.0, 8.0):
        _look_up(quick, spread)


def _look_up(quick: bool, spread: float) -> None:
    n = ENVIRONMENTS * (9_000 if quick else 98_000)
    chunks = [
        make_scores(n // 12, LABELS, spread, seed)[0].astype(np.float32) for seed in range(12)
    ]
    scores = np.concatenate(chunks)
    del chunks
    rng = np.random.default_rng(0)
    labels, environments = rng.integers(0, LABELS, n), rng.integers(0, ENVIRONMENTS, n)
    batch = 4_096 if quick else 65_536
    print(f"spread {spread:g}: {n:,} examples; a={ASKED}, {batch:,} anchors at once")
    for ahead in (True, False):
        before = time.process_time()
        made, lazy = time_of(
            lambda ahead=ahead: LazyMatches(scores, labels, environments, n_jobs=2, ahead=ahead)
        )
        busy = time.process_time() - before
        done = "checked and built" if ahead else "checked, built on demand"
        print(f"  {done}: {made:.1f} s, {busy:.1f} processor seconds")
        for turn in ("first", "second", "third"):
            anchors = rng.integers(0, n, batch)
            step = 1 + rng.integers(0, LABELS - 1, (batch, ASKED))
            other = (labels[anchors, None] + step) % LABELS
            before = time.process_time()
            seconds, _ = time_of(lambda a=anchors, o=other, m=lazy: m.lookup(a, o))
            busy = time.process_time() - before
            print(
                f"    {turn + ' look:':13} {batch / seconds:7,.0f} anchors a second "
                f"(wanted: 20,000), {batch / busy:7,.0f} a processor second",
                flush=True,
            )
        del lazy


BENCHMARKS = {
    "match-naive": run_naive,
    "match-colored": run_colored,
    "match-faiss": run_faiss,
    "match-lazily": run_lazily,
}
