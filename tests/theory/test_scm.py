"""The synthetic worlds are what they say: injective, with the truth at hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from equipoise.theory.scm import (
    SyntheticSCM,
    affine_r2,
    average_within,
    draw_mixing,
    match_distance,
    mean_correlation,
    score_distance,
)


def invert(mixing, h):
    """What went into a mixing: layer by layer, from the last."""
    for weight, bias in reversed(mixing.layers):
        h = np.linalg.solve(weight, (np.where(h > 0, h, h / mixing.slope) - bias).T).T
    return h


def unmix(scm, x):
    """The left inverse of x without noise: z [N, n] and the label [N]."""
    inner = x @ scm._embedding
    if scm.mechanism == "shared":
        inner = invert(scm._mixings[0], inner)
    z, labels = inner[:, : scm.n_latents].copy(), inner[:, scm.n_latents :].argmax(axis=1)
    if scm.mechanism == "per-label":
        for label, mixing in enumerate(scm._mixings):
            z[labels == label] = invert(mixing, z[labels == label])
    return z, labels


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(1, 3), st.floats(0.05, 1.0), st.integers(0, 10_000))
def test_every_mixing_can_be_undone(width, depth, slope, seed):
    generator = np.random.default_rng(seed)
    mixing = draw_mixing(width, depth=depth, slope=slope, generator=generator)
    z = generator.normal(size=(20, width))
    np.testing.assert_allclose(invert(mixing, mixing.apply(z)), z, atol=1e-7)


@pytest.mark.parametrize("mechanism", ["shared", "per-label"])
def test_x_without_noise_tells_label_and_z(mechanism):
    scm = SyntheticSCM(n_labels=3, n_environments=2, mechanism=mechanism, noise=0.0, seed=4)
    sample = scm.sample(500, seed=5)
    z, labels = unmix(scm, sample.x)
    np.testing.assert_array_equal(labels, sample.labels)
    np.testing.assert_allclose(z, sample.z, atol=1e-7)


@pytest.mark.parametrize("statistics", [1, 2])
def test_the_propensity_is_bayes_rule(statistics):
    scm = SyntheticSCM(n_latents=2, n_labels=3, n_environments=2, statistics=statistics, seed=0)
    sample = scm.sample(50, seed=1)
    for i in range(50):
        e = sample.environments[i]
        deviation = np.exp(0.5 * scm.log_variances[:, e])
        density = norm.pdf(sample.z[i], scm.means[:, e], deviation).prod(axis=1)
        np.testing.assert_allclose(np.exp(sample.log_propensity[i]), density / density.sum())


def test_labels_occur_as_often_as_the_propensity_says():
    scm = SyntheticSCM(
        n_latents=2, n_environments=2, environment_spread=0.5, label_spread=0.5, seed=0
    )
    sample = scm.sample(40_000, seed=1)
    share = np.exp(sample.log_propensity[:, 1])
    for low, high in ((0.0, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 1.0)):
        rows = (share >= low) & (share < high)
        error = 4 * 0.5 / np.sqrt(rows.sum())
        assert abs(sample.labels[rows].mean() - share[rows].mean()) < error


def test_a_sample_depends_on_its_seed_alone():
    scm = SyntheticSCM(seed=0)
    again = SyntheticSCM(seed=0)
    np.testing.assert_array_equal(scm.sample(10, seed=1).x, again.sample(10, seed=1).x)
    assert not np.array_equal(scm.sample(10, seed=1).x, scm.sample(10, seed=2).x)


def test_a_rank_makes_l_singular():
    assert SyntheticSCM(seed=0).identifiability().holds
    found = SyntheticSCM(rank=2, seed=0).identifiability()
    assert found.rank == 2
    assert not found.holds


def test_k_2_varies_variances_too():
    scm = SyntheticSCM(statistics=2, seed=0)
    assert scm.natural_parameters().shape == (2, 12, 10)
    assert scm.identifiability().holds
    z = scm.sample(10, seed=0).z
    np.testing.assert_array_equal(scm.sufficient_statistics(z)[:, 5:], z**2)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_latents": 0}, "n_latents"),
        ({"statistics": 3}, "statistics"),
        ({"mechanism": "own"}, "mechanism"),
        ({"rank": 9}, "rank"),
        ({"slope": 0.0}, "slope"),
        ({"depth": 0}, "depth"),
    ],
)
def test_a_wrong_setting_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        SyntheticSCM(**wrong)


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
