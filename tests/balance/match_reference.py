"""Plain float64 matching, written for reading, and scores that are hard to match."""

from __future__ import annotations

import numpy as np

METRICS = ("l1", "l2", "linf", "kl")
KINDS = ("flat", "peaked", "saturated", "tiny", "onehot", "duplicates", "equal", "float32")


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.logaddexp.reduce(x, axis=1, keepdims=True)


def make_scores(kind: str, rng: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Normalised log-scores [n, m] of a given nastiness."""
    if kind == "flat":
        return log_softmax(rng.normal(size=(n, m)))
    if kind == "peaked":
        return log_softmax(8 * rng.normal(size=(n, m)))
    if kind == "saturated":
        return log_softmax(300 * rng.normal(size=(n, m)))
    if kind == "tiny":  # some probabilities of 1e-300
        x = rng.normal(size=(n, m))
        x[rng.random((n, m)) < 0.5] = np.log(1e-300)
        return log_softmax(x)
    if kind == "onehot":
        with np.errstate(divide="ignore"):
            return np.log(np.eye(m)[rng.integers(0, m, n)])
    if kind == "duplicates":
        return log_softmax(3 * rng.normal(size=(max(1, n // 5), m)))[
            rng.integers(0, max(1, n // 5), n)
        ]
    if kind == "equal":
        return np.full((n, m), -np.log(m))
    if kind == "float32":
        return log_softmax(4 * rng.normal(size=(n, m))).astype(np.float32)
    raise ValueError(kind)


def plain_distance(metric: str, p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Textbook distances [n, n'] between rows of log-scores."""
    p, q = np.asarray(p, np.float64)[:, None], np.asarray(q, np.float64)[None]
    gap = np.abs(np.exp(p) - np.exp(q))
    if metric == "l1":
        return gap.sum(-1)
    if metric == "l2":
        return np.sqrt((gap**2).sum(-1))
    if metric == "linf":
        return gap.max(-1)
    with np.errstate(invalid="ignore"):
        terms = np.where(np.exp(p) > 0, np.exp(p) * (p - q), 0.0)
    return np.maximum(terms.sum(-1), 0.0)


def plain_candidates(labels: np.ndarray, environments: np.ndarray, anchor: int, label: int):
    """Who may be a match: of that label, of the anchor's environment, never of its own label."""
    if labels[anchor] == label:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((labels == label) & (environments == environments[anchor]))


def plain_greedy(distance: np.ndarray, k: int, reuse_max: int) -> list[list[tuple[float, int]]]:
    """Pairs by (distance, anchor, candidate), each kept while there is room at both ends."""
    pairs = sorted(
        (distance[a, c], a, c) for a in range(distance.shape[0]) for c in range(distance.shape[1])
    )
    lists: list[list[tuple[float, int]]] = [[] for _ in range(distance.shape[0])]
    used = np.zeros(distance.shape[1], dtype=int)
    for d, a, c in pairs:
        if len(lists[a]) < k and used[c] < reuse_max:
            lists[a].append((d, c))
            used[c] += 1
    return lists
