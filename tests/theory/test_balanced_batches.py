"""Theorem 3.7: label shares against the formula. Theorem 3.6: exactly finer functions balance."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.theory.balanced_batches import (
    PROPENSITY,
    BalanceCase,
    balanced_share,
    conditional_information,
    examine_functions,
    examine_ties,
    is_finer,
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
    ties = examine_ties(4000, seed=0)
    first, once, drawn = ties["largest gap given Z"]
    assert first > 0.2
    assert once > 0.2
    assert drawn < 0.08
    assert set(ties["given s(Z)"]) == {0.0}


def test_finer_functions_balance_and_coarser_do_not():
    found = examine_functions(4000, seed=0)
    finer, coarser = found[found["finer"]], found[~found["finer"]]
    assert list(finer["b(Z)"]) == ["Z itself", "finer than s(Z)", "s(Z)"]
    assert finer["I(Y;Z|b)"].abs().max() < 1e-12
    assert (finer["I(Y;Z) in batches"] < 0.03 * finer["I(Y;Z) before"]).all()
    assert coarser["I(Y;Z|b)"].min() > 0.01
    assert (coarser["I(Y;Z) in batches"] > 0.1 * coarser["I(Y;Z) before"]).all()


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_a_function_leaves_nothing_exactly_if_it_is_finer(codes):
    function = np.array(codes)
    left = conditional_information(PROPENSITY / 6, function)
    assert (left < 1e-12) == is_finer(function, PROPENSITY)


def test_one_entry_of_the_score_is_not_enough_for_three_labels():
    first = np.unique(PROPENSITY[:, 0], return_inverse=True)[1]
    assert not is_finer(first, PROPENSITY)
