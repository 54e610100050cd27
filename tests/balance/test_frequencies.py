"""Expected frequencies are those that sampling converges to."""

import numpy as np
import pytest

from equipoise.balance import (
    BalancedBatchSampler,
    Matches,
    balanced_frequencies,
    effective_sample_size,
    keep_near_ties,
    match_scores,
)
from equipoise.diagnosis import mutual_information, same_covariate_rate, standardized_differences


@pytest.mark.parametrize("n_matches", [1, 2])
def test_frequencies_are_what_many_epochs_show(n_matches):
    rng = np.random.default_rng(0)
    n = 60
    labels = rng.integers(3, size=n)
    environments = np.zeros(n, dtype=int)
    scores = np.log(rng.dirichlet(np.ones(3), size=n))
    matches = keep_near_ties(match_scores(scores, labels, environments, k=4), 0.05)
    sampler = BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=n, n_matches=n_matches
    )
    counts = np.zeros(n)
    for epoch in range(1500):
        sampler.set_epoch(epoch)
        for batch in sampler:
            counts += np.bincount(batch, minlength=n)
    expected = balanced_frequencies(matches, n_matches)
    assert expected.sum() == pytest.approx(n * (1 + n_matches))
    error = np.abs(counts / 1500 - expected)
    assert (error < 5 * np.sqrt(np.maximum(expected, 0.05) / 1500)).all()


def test_complete_balancing_gives_every_label_the_same_weight():
    rng = np.random.default_rng(1)
    labels = rng.choice(3, p=[0.7, 0.2, 0.1], size=200)
    scores = np.log(rng.dirichlet(np.ones(3), size=200))
    weights = balanced_frequencies(match_scores(scores, labels, k=3))
    np.testing.assert_allclose(np.bincount(labels, weights=weights), 200.0)


def test_effective_sample_size_of_equal_weights_is_their_number():
    assert effective_sample_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_sample_size(np.array([1.0, 0.0, 0.0])) == 1


def test_near_ties_keep_the_nearest_whatever_its_distance():
    found = Matches(
        np.array([[[1, 2], [-1, -1]]]), np.array([[[5.0, 6.0], [np.inf, np.inf]]]), "kl"
    )
    kept = keep_near_ties(found, 0.1)
    assert kept.indices.tolist() == [[[1, -1], [-1, -1]]]
    with pytest.raises(ValueError, match="tolerance"):
        keep_near_ties(found, -1.0)


def test_mutual_information_of_a_copy_is_its_entropy_and_of_independence_zero():
    assert mutual_information(np.eye(4)) == pytest.approx(np.log(4))
    assert mutual_information(np.outer([1, 2, 3], [4, 5])) == pytest.approx(0, abs=1e-12)


def test_same_covariate_rate_is_that_of_the_matches_a_batch_draws():
    found = Matches(np.array([[[1, 2]], [[0, -1]], [[-1, -1]]]), np.zeros((3, 1, 2)), "kl")
    assert same_covariate_rate(found, [5, 5, 6]) == pytest.approx((0.5 + 1.0) / 2)


def test_standardized_differences_use_the_unweighted_deviation():
    x = np.array([[0.0], [1.0], [2.0], [3.0]])
    labels, environments = np.array([0, 0, 1, 1]), np.zeros(4, dtype=int)
    plain = standardized_differences(x, labels, environments)
    np.testing.assert_allclose(plain, [[2.0 / x.std()]])
    weighted = standardized_differences(x, labels, environments, np.array([0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, [[1.0 / x.std()]])
