"""Rank and condition of L on matrices whose answer is known."""

import numpy as np
import pytest

from equipoise.latent import examine_identifiability


def test_enough_varied_pairs_satisfy_the_theorem():
    parameters = np.random.default_rng(0).normal(size=(4, 3, 5))
    found = examine_identifiability(parameters, np.ones((4, 3), dtype=bool))
    assert found.holds
    assert found.rank == 5
    assert found.pairs_available == 12
    assert found.pairs_needed == 6
    chosen = np.stack([parameters[y, e] for y, e in found.pairs])
    matrix = (chosen[1:] - chosen[0]).T
    assert np.linalg.cond(matrix) == pytest.approx(found.condition)


def test_parameters_on_a_line_do_not():
    line = np.linspace(0, 1, 12).reshape(4, 3, 1) * np.ones(5)
    found = examine_identifiability(line, np.ones((4, 3), dtype=bool))
    assert not found.holds
    assert found.rank == 1
    assert found.condition == np.inf


def test_pairs_without_examples_do_not_count():
    parameters = np.random.default_rng(0).normal(size=(3, 2, 4))
    seen = np.ones((3, 2), dtype=bool)
    assert examine_identifiability(parameters, seen).holds
    seen[2] = False
    found = examine_identifiability(parameters, seen)
    assert not found.holds
    assert found.pairs_available == 4
    assert all(label != 2 for label, _ in found.pairs)


def test_the_same_parameters_everywhere_have_rank_zero():
    found = examine_identifiability(np.ones((2, 2, 3)), np.ones((2, 2), dtype=bool))
    assert found.rank == 0
    assert "does not hold" in str(found)
