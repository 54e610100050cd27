"""Common support: examples whose score no other label comes near cannot be balanced."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.match_input import check_codes, check_labels
from equipoise.balance.match_source import ScoreSource, open_scores

_ENTRIES_AT_ONCE = 1 << 20


def common_support(
    log_scores: Any, labels: Any, environments: Any = None, *, least: float | None = None
) -> NDArray[np.bool_]:
    """Which examples lie where every label of their environment has examples: [N].

    The min–max rule: for each label's score the supported range goes from the largest of the
    groups' minima to the smallest of their maxima; an example must be inside all of them. With
    `least`, every label that the environment has must have at least this probability instead:
    the rule of Crump and others (2009), who advise 0.1 for two labels.

    >>> scores = np.log([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4], [0.3, 0.7]])
    >>> common_support(scores, [0, 0, 1, 1])
    array([False,  True,  True, False])
    >>> common_support(scores, [0, 0, 1, 1], least=0.2)
    array([False,  True,  True,  True])
    """
    source = open_scores(log_scores)
    codes = check_labels(labels, *source.shape)
    where = np.zeros(len(codes), dtype=np.int64)
    if environments is not None:
        where = check_codes("environments", environments, len(codes))
    return find_support(source, codes, where, check_support(least))


def check_support(rule: bool | float | None) -> float | None:
    """None for the min–max rule, or the least probability that every label must have."""
    if rule is None or isinstance(rule, bool | np.bool_) or rule == 0:
        return None
    if isinstance(rule, str) or not 0.0 < rule < 0.5:
        raise ValueError(
            f"common_support must be True, False or a least probability between 0 and 0.5, got "
            f"{rule!r}: 0.1 is usual for two labels, less for more"
        )
    return float(rule)


def find_support(
    source: ScoreSource, labels: IntArray, environments: IntArray, least: float | None = None
) -> NDArray[np.bool_]:
    """The same over a source of scores, which is read in parts."""
    n, m = source.shape
    inside = np.zeros(n, dtype=bool)
    step = max(1, _ENTRIES_AT_ONCE // m)
    for environment in np.unique(environments):
        rows = np.flatnonzero(environments == environment)
        parts = [rows[start : start + step] for start in range(0, len(rows), step)]
        if least is None:
            low, high = _range(source, labels, parts)
        else:
            low = np.full(m, -np.inf)
            low[np.unique(labels[rows])] = np.log(least)
            high = np.full(m, np.inf)
        for part in parts:
            log = source.read(part).log
            inside[part] = ((log >= low) & (log <= high)).all(axis=1)
    return inside


def _range(
    source: ScoreSource, labels: IntArray, parts: list[IntArray]
) -> tuple[FloatArray, FloatArray]:
    least: dict[int, FloatArray] = {}
    most: dict[int, FloatArray] = {}
    for part in parts:
        log = source.read(part).log
        for label in np.unique(labels[part]).tolist():
            group = log[labels[part] == label]
            least[label] = np.minimum(least.get(label, np.inf), group.min(axis=0))
            most[label] = np.maximum(most.get(label, -np.inf), group.max(axis=0))
    low: FloatArray = np.max(list(least.values()), axis=0)
    high: FloatArray = np.min(list(most.values()), axis=0)
    return low, high
