"""Matching against the plain n×n×m tensor of differences: time and memory (KL, m = 10)."""

from __future__ import annotations

import numpy as np

from benchmarks.match_setting import describe_machine, make_scores, memory_of, time_of
from equipoise.balance.match import match_scores


def match_naively(log_anchors: np.ndarray, log_candidates: np.ndarray) -> np.ndarray:
    """The nearest by KL = Σ p·log(p/q), as the textbook has it: a tensor of all terms."""
    p, q = np.exp(log_anchors)[:, None], np.exp(log_candidates)[None]
    return (p * np.log(p / q)).sum(axis=2).argmin(axis=1)  # [n, n, m], twice


def run(quick: bool) -> None:
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
