"""Every engine gives the same answer, index for index, on scores made to mislead it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from match_reference import KINDS, METRICS, make_scores

from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.choice import ENGINES
from equipoise.balance.engines.direct import DirectEngine


def engines_for(metric: str, m: int) -> list[str]:
    names = ["line"] if m == 2 else []
    names += ["blocked", "cells"]
    return names if metric == "kl" else [*names, "kdtree"]


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    metric=st.sampled_from(METRICS),
    m=st.sampled_from([2, 2, 3, 5, 10, 40]),
    n=st.integers(1, 600),
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
