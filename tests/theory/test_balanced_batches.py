"""Theorem 3.7: the share of every label in batches, against the formula."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.theory.balanced_batches import (
    BalanceCase,
    balanced_share,
    examine_ties,
    measure_balance,
    sample_discrete,
)

EXACT = {"n_examples": 8000, "epochs": 2, "max_steps": 0, "seed": 1}


@given(st.integers(2, 8), st.data())
def test_the_formula_is_that_of_the_proof(m, data):
    a = data.draw(st.integers(1, m - 1))
    p = data.draw(st.floats(0.0, 1.0))
    # An anchor of this label, or one of the a labels drawn one after another by another anchor.
    missed, drawn = 1.0, 0.0
    for i in range(a):
        drawn += missed / (m - 1 - i)
        missed *= 1 - 1 / (m - 1 - i)
    assert balanced_share(np.array(p), a, m) == pytest.approx((p + (1 - p) * drawn) / (a + 1))


@pytest.mark.parametrize("m", [2, 5, 10])
def test_all_matches_make_the_label_uniform(m):
    shares = np.random.default_rng(0).dirichlet(np.ones(m))
    np.testing.assert_allclose(balanced_share(shares, m - 1, m), 1 / m)


@pytest.mark.parametrize("matching", ["covariate", "true score"])
@pytest.mark.parametrize(("m", "a"), [(2, 1), (5, 1), (5, 3), (5, 4), (10, 2), (10, 9)])
def test_exact_matches_follow_the_formula_within_sampling_error(m, a, matching):
    found = measure_balance(BalanceCase(m, a, matching, **EXACT))
    if a == m - 1:
        assert found["largest_gap"] < 1e-12
        assert found["p_value"] is None
    else:
        assert found["p_value"] > 1e-3
        assert found["gap"] < 0.1 * found["gap_of_random_batches"]


def test_a_wrong_formula_is_noticed(monkeypatch):
    from equipoise.theory import balanced_batches

    sampler = balanced_batches.BalancedBatchSampler
    monkeypatch.setattr(
        balanced_batches,
        "BalancedBatchSampler",
        lambda *args, n_matches, **kwargs: sampler(*args, n_matches=n_matches + 1, **kwargs),
    )
    found = measure_balance(BalanceCase(5, 1, "covariate", **EXACT))
    assert found["p_value"] < 1e-6


def test_learned_scores_come_close():
    case = BalanceCase(2, 1, "learned score", n_examples=2000, epochs=1, max_steps=150, seed=0)
    found = measure_balance(case)
    assert found["gap"] < 0.35 * found["gap_of_random_batches"]


def test_every_label_occurs_with_every_value_and_the_score_is_its_share():
    sample = sample_discrete(4000, 5, seed=0)
    for z, e in itertools.product(range(5), range(2)):
        rows = (sample.z == z) & (sample.environments == e)
        share = np.bincount(sample.labels[rows], minlength=5) / rows.sum()
        np.testing.assert_allclose(np.exp(sample.log_propensity[rows][0]), share)
        assert share.min() > 0


def test_an_empty_cell_is_refused():
    with pytest.raises(ValueError, match="cell of 10 labels"):
        sample_discrete(200, 10, seed=0)


def test_values_that_share_a_score_are_balanced_only_by_drawing_among_ties():
    first, once, drawn = examine_ties(4000, seed=0)
    assert first["gap_given_z"] > 0.2
    assert once["gap_given_z"] > 0.2
    assert drawn["gap_given_z"] < 0.08
    assert {row["gap_given_score"] for row in (first, once, drawn)} == {0.0}
