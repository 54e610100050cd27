"""The measures of recovery on cases whose answer is known."""

import numpy as np
import pytest

from equipoise.theory.recovery import (
    affine_r2,
    average_within,
    match_distance,
    mean_correlation,
    score_distance,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(2000, 3))


def test_an_affine_image_is_full_recovery_and_noise_is_none():
    assert affine_r2(Z, Z @ RNG.normal(size=(3, 3)) + 1.0) == pytest.approx(1.0)
    assert abs(affine_r2(Z, RNG.normal(size=(2000, 3)))) < 0.02


def test_half_the_variance_is_half():
    noisy = Z + RNG.normal(size=Z.shape)
    assert affine_r2(Z, noisy) == pytest.approx(0.5, abs=0.05)


def test_the_map_is_judged_on_rows_it_was_not_fitted_on():
    assert affine_r2(Z[:40], RNG.normal(size=(40, 15))) < 0.0


def test_within_labels_every_label_has_its_own_map():
    labels = RNG.integers(2, size=2000)
    turned = np.where(labels[:, None] == 1, -Z, Z)
    assert average_within(affine_r2, Z, turned, labels) == pytest.approx(1.0)
    assert affine_r2(Z, turned) < 0.1
    assert average_within(mean_correlation, Z, turned, labels) == pytest.approx(1.0)


def test_correlation_pairs_components_whatever_their_order_sign_and_scale():
    assert mean_correlation(Z, Z[:, [2, 0, 1]] * [-3.0, 0.1, 2.0]) == pytest.approx(1.0)
    turned = Z @ np.linalg.qr(RNG.normal(size=(3, 3)))[0]
    assert mean_correlation(Z, turned) < 0.95


def test_the_score_distance_is_total_variation():
    a, b = np.log([[1 / 2, 1 / 4, 1 / 4]]), np.log([[1 / 4, 1 / 2, 1 / 4]])
    assert score_distance(a, b) == pytest.approx(0.25)
    assert score_distance(a, a) == 0.0


def test_matching_on_the_truth_is_nearer_than_on_noise():
    logits = RNG.normal(size=(600, 2))
    truth = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    noise = truth[RNG.permutation(600)]
    labels, environments = RNG.integers(2, size=600), RNG.integers(2, size=600)
    best = match_distance(truth, truth, labels, environments)
    assert best < 0.01
    assert match_distance(truth, noise, labels, environments) > 10 * best
