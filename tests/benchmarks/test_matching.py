"""The baselines of the benchmarks compute what they are compared with."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.__main__ import find_benchmarks
from benchmarks.matching import make_scores, match_naively, memory_of
from equipoise.balance.match import match_scores


def test_every_matching_benchmark_is_known_by_name():
    names = {"match-naive", "match-growth", "match-faiss", "match-colored", "match-lazily"}
    assert names <= set(find_benchmarks())


def test_the_naive_baseline_finds_the_same_matches():
    log, _ = make_scores(300, 10, 1.0)
    labels = np.repeat([0, 1], 150)
    found = match_scores(log, labels).indices[:150, 1, 0]
    np.testing.assert_array_equal(match_naively(log[:150], log[150:]) + 150, found)


def test_memory_is_what_a_call_held_at_once():
    assert memory_of(lambda: np.ones(1_000_000).sum()) == pytest.approx(8e6, rel=0.01)
