"""Every engine against the direct one on scores made of near-ties: the same match, or a count."""

from __future__ import annotations

from collections import Counter

import numpy as np

from equipoise.balance import match_scores

METRICS = ("l1", "l2", "linf", "kl")
KINDS = ("ulps", "permuted", "grid", "grid and ulps", "mirrored", "rounded")


def make_near_ties(kind: str, n: int, m: int, rng: np.random.Generator) -> np.ndarray:
    """Log-scores [n, m] with many candidates at equal or nearly equal distances."""
    base = rng.normal(size=(max(3, n // 20), m)) * rng.choice([0.1, 1, 4, 15, 40])
    which = rng.integers(0, len(base), n)
    if kind == "ulps":
        logits = base[which] + rng.normal(size=(n, m)) * rng.choice([1e-15, 1e-14, 1e-12, 1e-9])
    elif kind == "permuted":
        logits = rng.permuted(base[which % 3], axis=1)
    elif kind == "grid":
        logits = np.log(rng.integers(1, 6, size=(n, m)))
    elif kind == "grid and ulps":
        steps = 1 + rng.integers(-3, 4, size=(n, m)) * np.finfo(float).eps
        logits = np.log(rng.integers(1, 4, size=(n, m)) * steps)
    elif kind == "mirrored":
        away = rng.normal(size=(3, m))[rng.integers(0, 3, n)] * rng.choice([1e-3, 0.1])
        logits = base[which] + rng.choice([-1, 1], size=(n, 1)) * away
    else:
        logits = np.round(rng.normal(size=(n, m)) * rng.choice([1, 5, 20]), 1)
    scores = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return scores.astype(np.float32) if rng.random() < 0.2 else scores


def count_differences(n_anchors: int, seed: int) -> tuple[int, Counter[str]]:
    """How many anchors were compared (each engine counts), and where an engine differed."""
    rng = np.random.default_rng(seed)
    compared, wrong = 0, Counter[str]()
    while compared < n_anchors:
        n, m = int(rng.choice([60, 300, 1_500])), int(rng.choice([2, 2, 3, 5, 10]))
        kind = str(rng.choice(KINDS))
        scores, labels = make_near_ties(kind, n, m, rng), rng.integers(0, min(m, 3), n)
        labels[:2] = 0, 1
        for metric in METRICS:
            settings = {"metric": metric, "n_nearest": 2}
            exact = match_scores(scores, labels, engine="direct", **settings)
            ways = {name: {"engine": name} for name in _engines(metric, m)}
            for name, way in {**ways, "in portions": {"memory": 30 << 20}}.items():
                found = match_scores(scores, labels, **settings, **way)
                same = (found.indices == exact.indices) & (found.distances == exact.distances)
                compared += n
                wrong[f"{name}, {metric}, {kind}"] += int((~same).any(axis=(1, 2)).sum())
    return compared, +wrong


def _engines(metric: str, m: int) -> list[str]:
    names = ["blocked", "cells"]
    if m == 2:
        names.append("line")
    if metric != "kl":
        names.append("kdtree")
    if metric != "linf":
        names.append("faiss")
    return names


def run(quick: bool) -> None:
    compared, wrong = count_differences(100_000 if quick else 10_000_000, seed=0)
    print(f"{compared:,} anchors compared, {sum(wrong.values()):,} differ", *wrong.items())
