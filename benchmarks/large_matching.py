"""600,000 examples of 345 labels matched within a memory budget, to the first 100 batches."""

from __future__ import annotations

import resource
import time

import numpy as np

from equipoise.balance import BalancedBatchSampler, find_matches


def make_scores(n: int, m: int, seed: int = 0) -> np.ndarray:
    """Random normalised log-scores [n, m] in float32, made in portions."""
    rng = np.random.default_rng(seed)
    scores = np.empty((n, m), dtype=np.float32)
    for start in range(0, n, 8_192):
        logits = 2 * rng.normal(size=scores[start : start + 8_192].shape)
        logits -= np.logaddexp.reduce(logits, axis=1, keepdims=True)
        scores[start : start + 8_192] = logits
    return scores


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def run(quick: bool) -> None:
    n, m, n_environments = (60_000, 345, 6) if quick else (600_000, 345, 6)
    rng = np.random.default_rng(1)
    labels, environments = rng.integers(0, m, n), rng.integers(0, n_environments, n)
    scores = make_scores(n, m)
    before = peak_gigabytes()
    table = n * m * 40 * 16 / 1e9
    print(f"{n:,} × {m}, n_nearest=40: scores {scores.nbytes / 1e9:.2f} GB, table {table:.0f} GB")
    for memory in (1 << 30, None):
        started, busy = time.perf_counter(), time.process_time()
        matches = find_matches(
            scores, labels, environments, n_nearest=40, tolerance=0.1, memory=memory, n_jobs=2
        )
        sampler = BalancedBatchSampler(
            labels, environments, matches, anchors_per_environment=32, n_matches=5
        )
        made = time.perf_counter() - started
        batches = iter(sampler)
        sizes = [len(next(batches)) for _ in range(100)]
        seconds = time.perf_counter() - started
        budget = "a quarter of the free memory" if memory is None else f"{memory / 2**30:.0f} GiB"
        print(
            f"{type(matches).__name__}, budget {budget}: ready after {made:.1f} s, 100 batches of "
            f"{max(sizes)} after {seconds:.1f} s ({time.process_time() - busy:.1f} processor "
            f"seconds), peak {peak_gigabytes():.2f} GB, {peak_gigabytes() - before:.2f} more than "
            "with the scores alone",
            flush=True,
        )
