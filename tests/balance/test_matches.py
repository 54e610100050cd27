"""What a table of matches answers."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.balance.matches import Matches


def make_matches() -> Matches:
    indices = np.array([[[-1, -1], [1, 2]], [[0, -1], [-1, -1]], [[-1, -1], [-1, -1]]])
    return Matches(indices, np.where(indices < 0, np.inf, 0.5), "l1")


def test_lookup_gives_the_matches_of_the_labels_asked_of_each_anchor():
    found = make_matches().lookup(np.array([1, 0]), np.array([[0], [1]]))
    assert found.tolist() == [[[0, -1]], [[1, 2]]]


def test_has_match_says_for_which_labels_there_is_one():
    assert make_matches().has_match(np.array([0, 1, 2])).tolist() == [
        [False, True],
        [True, False],
        [False, False],
    ]


def test_a_readable_repr():
    text = "Matches(3 examples, 2 labels, k=2, metric='l1', 2 of 3 pairs matched)"
    assert repr(make_matches()) == text


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\[N, m, k\]"):
        Matches(np.zeros((2, 2, 1), dtype=np.int64), np.zeros((2, 2)), "kl")
