"""What the matching benchmarks share: scores, a clock, a measure of memory."""

from __future__ import annotations

import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

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
