"""Every engine gives the same answer, index for index, on scores made to mislead it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.near_ties import count_differences
from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.choice import ENGINES
from equipoise.balance.engines.nearest import DirectEngine
from tests.balance.match_reference import KINDS, METRICS, make_scores


def engines_for(metric: str, m: int) -> list[str]:
    names = ["line"] if m == 2 else []
    names += ["blocked", "cells"]
    if metric != "linf" and find_spec("faiss") is not None:
        names.append("faiss")
    return names if metric == "kl" else [*names, "kdtree"]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    metric=st.sampled_from(METRICS),
    m=st.sampled_from([2, 2, 3, 5, 10, 40]),
    n=st.one_of(st.integers(1, 600), st.integers(1000, 1300)),
    k=st.sampled_from([1, 1, 2, 5, 20]),
)
def test_engines_agree_with_the_direct_one(seed, kind, metric, m, n, k):
    rng = np.random.default_rng(seed)
    scores = Scores.from_log(make_scores(kind, rng, n + 20, m).astype(np.float64))
    anchors, candidates = scores.take(slice(n, None)), scores.take(slice(0, n))
    measure = get_metric(metric)
    k = min(k, n)
    expected = DirectEngine(measure, candidates).nearest(anchors, k)
    for name in engines_for(metric, m):
        found = ENGINES[name](measure, candidates).nearest(anchors, k)
        np.testing.assert_array_equal(found.positions, expected.positions, err_msg=name)
        np.testing.assert_array_equal(found.distances, expected.distances, err_msg=name)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
def test_anchors_that_are_candidates_find_themselves_first(kind, metric):
    scores = Scores.from_log(make_scores(kind, np.random.default_rng(1), 200, 2).astype(np.float64))
    measure = get_metric(metric)
    key = measure.key(Scores(np.where(scores.prob > 0, scores.log, -np.inf), scores.prob))
    first = [(key == row).all(axis=1).argmax() for row in key]
    for name in ["direct", *engines_for(metric, 2)]:
        found = ENGINES[name](measure, scores).nearest(scores, 1)
        assert (found.distances == 0).all()
        np.testing.assert_array_equal(found.positions[:, 0], first, err_msg=name)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    metric=st.sampled_from(METRICS),
    m=st.sampled_from([2, 4, 30]),
    k=st.sampled_from([1, 3]),
    block_bytes=st.sampled_from([1, 1 << 12, 1 << 16]),
)
def test_the_size_of_blocks_does_not_change_the_answer(seed, kind, metric, m, k, block_bytes):
    rng = np.random.default_rng(seed)
    scores = Scores.from_log(make_scores(kind, rng, 160, m).astype(np.float64))
    anchors, candidates = scores.take(slice(0, 40)), scores.take(slice(40, None))
    measure = get_metric(metric)
    expected = DirectEngine(measure, candidates).nearest(anchors, k)
    found = BlockedEngine(measure, candidates, block_bytes=block_bytes).nearest(anchors, k)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["flat", "peaked", "saturated", "duplicates"])
def test_engines_agree_where_cells_are_many(kind, metric):
    rng = np.random.default_rng(5)
    scores = Scores.from_log(make_scores(kind, rng, 6000, 6))
    anchors, candidates = scores.take(slice(0, 1000)), scores.take(slice(1000, None))
    measure = get_metric(metric)
    expected = DirectEngine(measure, candidates).nearest(anchors, 2)
    for name in engines_for(metric, 6):
        found = ENGINES[name](measure, candidates).nearest(anchors, 2)
        np.testing.assert_array_equal(found.positions, expected.positions, err_msg=name)
        np.testing.assert_array_equal(found.distances, expected.distances, err_msg=name)


@pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is one of the engines compared")
def test_engines_agree_on_near_ties_to_the_last_digit():
    """Equal scores but for a few ulps, permuted ones and grids, saturated ones among them."""
    compared, wrong = count_differences(150_000, seed=3)
    assert compared >= 150_000
    assert not wrong
