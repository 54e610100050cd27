"""What matching found: its table, what is kept of it, and how good it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise.balance import Groups, balanced_frequencies, keep_closest, match_scores
from equipoise.balance.matches import Matches, write_weights


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
    text = "Matches(3 examples, 2 labels, n_nearest=2, metric='l1', 2 of 3 pairs matched)"
    assert repr(make_matches()) == text


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"\[N, m, k\]"):
        Matches(np.zeros((2, 2, 1), dtype=np.int64), np.zeros((2, 2)), "kl")


def test_the_closest_in_the_covariates_are_kept_by_the_distance_of_their_definition():
    rng = np.random.default_rng(0)
    n = 120
    x = rng.normal(size=(n, 3)) @ np.array([[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 0.1]])
    labels = rng.integers(0, 2, n)
    logit = x[:, 0] + labels
    scores = -np.column_stack([np.logaddexp(0, logit), np.logaddexp(0, -logit)])
    found = match_scores(scores, labels, n_nearest=20)
    kept = keep_closest(found, x, labels, n_nearest=3)
    inner = x.copy()
    for label in (0, 1):
        inner[labels == label] -= x[labels == label].mean(axis=0)
    inverse = np.linalg.inv(inner.T @ inner / n)
    for anchor in range(n):
        label = 1 - labels[anchor]
        listed = found.indices[anchor, label]
        gaps = x[anchor] - x[listed]
        order = np.argsort(np.einsum("ki,ij,kj->k", gaps, inverse, gaps))
        assert kept.indices[anchor, label].tolist() == listed[order[:3]].tolist()
    assert kept.indices.shape == (n, 2, 3)
    assert (kept.indices[np.arange(n), labels] == -1).all()


def test_misaligned_covariates_are_refused():
    found = match_scores(np.log(np.full((4, 2), 0.5)), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="covariates have 3 rows, labels 4"):
        keep_closest(found, np.zeros(3), [0, 1, 0, 1])


def test_a_weight_in_the_file_is_0_without_a_match_and_at_least_1_with_one(tmp_path):
    scores = np.log([[0.9, 0.1], [0.8, 0.2], [0.85, 0.15], [0.1, 0.9]])
    labels = np.array([0, 1, 0, 0])
    found = match_scores(scores, labels, caliper=0.1)
    groups = Groups(labels, np.zeros(4, dtype=np.int64), ("a", "b"), ("here",))
    write_weights(tmp_path / "w.parquet", balanced_frequencies(found), groups, np.arange(4))
    weights = pd.read_parquet(tmp_path / "w.parquet")["weight"].to_numpy()
    assert weights[3] == 0.0
    assert (weights[:3] >= 1.0).all()
