"""What matching found: its table, what is kept of it, and how good it is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from equipoise import CausalBalancer
from equipoise.balance import (
    Groups,
    balanced_frequencies,
    choose_tolerance,
    effective_sample_size,
    keep_closest,
    match_scores,
)
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


def test_near_ties_of_peaked_scores_are_used_alike_and_keep_the_covariate():
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=8_000)
    colour = np.where(rng.random(8_000) < 0.8, labels, rng.integers(10, size=8_000))
    joint = np.log(np.full((10, 10), 0.02) + 0.8 * np.eye(10))  # [colour, label]
    scores = joint[colour] + 0.3 * rng.normal(size=(8_000, 10))  # as an estimate has them
    scores -= np.logaddexp.reduce(scores, axis=1)[:, None]
    rare = colour != labels

    def measure(tolerance):
        found = match_scores(scores, labels, n_nearest=40, tolerance=tolerance)
        anchors, _, _ = (found.indices >= 0).nonzero()
        same = colour[found.indices[found.indices >= 0]] == colour[anchors]
        return effective_sample_size(balanced_frequencies(found)[rare]), same.mean()

    chosen = choose_tolerance(scores, np.zeros(8_000, dtype=np.int64))
    (fixed, _), (spread, same) = measure(0.01), measure(chosen)
    assert spread > 1.3 * fixed
    assert same > 0.99


def test_the_tolerance_is_a_share_of_the_information_that_is_balanced():
    prob = np.array([[0.9, 0.1], [0.1, 0.9], [0.8, 0.2], [0.2, 0.8]])
    information = np.mean(np.sum(prob * np.log(prob / 0.5), axis=1))
    chosen = choose_tolerance(np.log(prob), np.array([0, 0, 1, 1]))
    assert chosen == pytest.approx(0.05 * information)
    assert choose_tolerance(np.log(prob), np.arange(4)) == 0.01  # an environment each: nothing left


def test_the_balancer_takes_the_tolerance_from_its_scores():
    rng = np.random.default_rng(0)
    site, label = rng.integers(2, size=600), rng.integers(2, size=600)
    colour = np.where(rng.random(600) < np.where(site, 0.98, 0.7), label, 1 - label)
    X = np.stack([colour + 0.1 * rng.normal(size=600), label + rng.normal(size=600)], axis=1)
    found = CausalBalancer(random_state=0).fit(X, label, site)
    chosen = choose_tolerance(found.log_scores_, site)
    assert chosen > 0.01
    wide = CausalBalancer(tolerance=chosen, random_state=0).fit(X, label, site)
    assert (found.matches_.indices == wide.matches_.indices).mean() > 0.99
