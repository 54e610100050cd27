"""Theorem 3.6: finer than the propensity score balances, coarser does not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.theory.balancing_scores import (
    PROPENSITY,
    conditional_information,
    examine_functions,
    is_finer,
)


def test_finer_functions_balance_and_coarser_do_not():
    found = {score.function: score for score in examine_functions(4000, seed=0)}
    assert [name for name, score in found.items() if score.finer] == [
        "Z itself",
        "finer than s(Z)",
        "s(Z)",
    ]
    for score in found.values():
        if score.finer:
            assert score.left_within == pytest.approx(0.0, abs=1e-12)
            assert score.left_in_batches < 0.03 * score.at_first
        else:
            assert score.left_within > 0.01
            assert score.left_in_batches > 0.1 * score.at_first


@settings(max_examples=60)
@given(st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_a_function_leaves_nothing_exactly_if_it_is_finer(codes):
    function = np.array(codes)
    left = conditional_information(PROPENSITY / 6, function)
    assert (left < 1e-12) == is_finer(function, PROPENSITY)


def test_one_entry_of_the_score_is_not_enough_for_three_labels():
    first = np.unique(PROPENSITY[:, 0], return_inverse=True)[1]
    assert not is_finer(first, PROPENSITY)
