"""The distance itself: exact where the textbook formula loses its digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.balance.distances import Scores, get_metric, pair_distances
from tests.balance.match_reference import KINDS, METRICS, make_scores, plain_distance


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(METRICS), st.integers(2, 40))
def test_distances_are_those_of_the_textbook(seed, kind, metric, m):
    scores = make_scores(kind, np.random.default_rng(seed), 20, m)
    tolerance = 1e-6 if kind == "float32" else 1e-12
    np.testing.assert_allclose(
        pair_distances(metric, scores[:, None], scores[None]),
        plain_distance(metric, scores, scores),
        rtol=1e-9,
        atol=tolerance,
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(METRICS), st.integers(2, 40))
def test_a_distance_is_never_negative_and_zero_only_between_equals(seed, kind, metric, m):
    scores = make_scores(kind, np.random.default_rng(seed), 20, m)
    distance = pair_distances(metric, scores[:, None], scores[None])
    assert (distance >= 0).all()
    key = get_metric(metric).key(Scores.from_log(scores.astype(np.float64)))
    equal = (key[:, None] == key[None]).all(-1)
    assert (distance[equal] == 0).all()
    if kind != "saturated":  # there a gap of log-scores may belong to a probability of 0
        assert (distance[~equal] > 0).all()


@pytest.mark.parametrize("gap", [1e-3, 1e-8, 1e-12])
@pytest.mark.parametrize("p", [0.5, 1e-3, 1e-20, 1e-200])
def test_kl_keeps_its_digits_between_near_scores(p, gap):
    """KL of two Bernoulli scores a relative `gap` apart is p·gap²/2 to first order."""
    q = p * (1 + gap)
    anchor = np.array([[np.log(p), np.log1p(-p)]])
    candidate = np.array([[np.log(p) + np.log1p(gap), np.log1p(-q)]])
    realised = candidate[0, 0] - anchor[0, 0]
    expected = p * realised**2 / 2 / (1 - p)
    np.testing.assert_allclose(
        pair_distances("kl", anchor, candidate), expected, rtol=max(4 * gap, 1e-3)
    )


def test_kl_of_rational_scores_is_exact():
    p = [Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)]
    q = [Fraction(1, 2), Fraction(1, 4), Fraction(1, 4)]
    expected = 0.25 * np.log(0.5) + 0.5 * np.log(2.0)
    found = pair_distances("kl", np.log([[float(x) for x in p]]), np.log([[float(x) for x in q]]))
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_kl_is_infinite_where_the_candidate_lacks_a_label_of_the_anchor():
    with np.errstate(divide="ignore"):
        some, all_ = np.log([[1.0, 0.0]]), np.log([[0.5, 0.5]])
    assert np.isposinf(pair_distances("kl", all_, some))
    assert np.isfinite(pair_distances("kl", some, all_))


def test_l2_does_not_underflow():
    with np.errstate(divide="ignore"):
        p, q = np.log([[1.0, 3e-200, 0.0]]), np.log([[1.0, 0.0, 4e-200]])
    np.testing.assert_allclose(pair_distances("l2", p, q), 5e-200, rtol=1e-12)


def test_a_distance_does_not_depend_on_the_company_it_is_computed_in():
    scores = make_scores("peaked", np.random.default_rng(0), 64, 7)
    for metric in METRICS:
        together = pair_distances(metric, scores[:, None], scores[None])
        alone = [[pair_distances(metric, p[None], q[None])[0] for q in scores] for p in scores]
        np.testing.assert_array_equal(together, alone)
