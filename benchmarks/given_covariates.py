"""120,000 rows × 10 given covariates balanced by each method; a million rows by matching."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from benchmarks.large_matching import peak_gigabytes
from equipoise.balance import (
    balanced_frequencies,
    entropy_weights,
    find_matches,
    fit_propensity,
    overlap_weights,
)


def make_table(n: int, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Eight numbers and two categories that predict a label differently in three environments."""
    rng = np.random.default_rng(seed)
    environments = rng.integers(0, 3, n)
    x = rng.normal(size=(n, 8))
    codes = rng.integers(0, 5, size=(n, 2))
    logit = 0.5 * x @ np.linspace(-1, 1, 8) + 0.3 * (codes[:, 0] - 2) + 0.3 * environments
    labels = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    table = pd.DataFrame(x, columns=[f"x{i}" for i in range(8)])
    for i in range(2):
        table[f"site{i}"] = np.array(list("abcde"))[codes[:, i]]
    return table, labels, environments


def largest_difference(table: pd.DataFrame, labels: np.ndarray, weights: np.ndarray) -> float:
    """The largest standardised difference between the two labels over all columns."""
    x = pd.get_dummies(table).to_numpy(np.float64)
    means = [np.average(x[labels == y], axis=0, weights=weights[labels == y]) for y in (0, 1)]
    return float(np.abs((means[0] - means[1]) / x.std(axis=0)).max())


def run(quick: bool) -> None:
    n = 12_000 if quick else 120_000
    table, labels, environments = make_table(n)
    before = largest_difference(table, labels, np.ones(n))
    print(f"{n:,} × {table.shape[1]}: largest standardised difference {before:.3f}")

    def by_matching() -> np.ndarray:
        scores = fit_propensity(table, labels, environments).log_scores
        return balanced_frequencies(
            find_matches(scores, labels, environments, n_nearest=40, tolerance=0.001, n_jobs=2)
        )

    def by_overlap() -> np.ndarray:
        scores = fit_propensity(table, labels, environments).log_scores
        return overlap_weights(scores, labels, environments).values

    methods: dict[str, Callable[[], np.ndarray]] = {
        "match": by_matching,
        "overlap": by_overlap,
        "entropy": lambda: entropy_weights(table, labels, environments).values,
    }
    for name, method in methods.items():
        started, busy = time.perf_counter(), time.process_time()
        weights = method()
        seconds, busy = time.perf_counter() - started, time.process_time() - busy
        after = largest_difference(table, labels, weights)
        print(
            f"{name:8} {seconds:5.1f} s ({busy:.1f} processor seconds), "
            f"largest difference {after:.3f}"
        )
    n = 100_000 if quick else 1_000_000
    table, labels, environments = make_table(n)
    memory = peak_gigabytes()
    started, busy = time.perf_counter(), time.process_time()
    scores = fit_propensity(table, labels, environments).log_scores
    matches = find_matches(scores, labels, environments, n_nearest=40, tolerance=0.001, n_jobs=2)
    weights = balanced_frequencies(matches)
    seconds, busy = time.perf_counter() - started, time.process_time() - busy
    print(
        f"{n:,} rows by matching ({type(matches).__name__}): {seconds:.0f} s ({busy:.0f} processor "
        f"seconds), {peak_gigabytes() - memory:.2f} GB beside the table, largest difference "
        f"{largest_difference(table, labels, weights):.3f}"
    )
