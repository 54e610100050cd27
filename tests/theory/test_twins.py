"""Two models that no data can tell apart: the gap in counting pairs."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from equipoise.theory.scm import (
    SyntheticSCM,
    affine_r2,
    average_within,
    mean_correlation,
    score_distance,
)
from equipoise.theory.twins import ObservationalTwin


def make_twin(**changes):
    scm = SyntheticSCM(**{"n_latents": 5, "n_labels": 6, "n_environments": 1, "seed": 1, **changes})
    return scm, ObservationalTwin(scm, seed=2), scm.sample(6000, seed=3)


def test_the_papers_condition_holds_and_z_is_not_affine_in_the_twins():
    scm, twin, sample = make_twin()
    assert scm.identifiability().holds
    other = twin.to_twin(sample.z, sample.labels)
    assert average_within(affine_r2, sample.z, other, sample.labels) < 0.5


def test_the_twins_z_has_the_distribution_its_prior_says():
    scm, twin, sample = make_twin(n_environments=2)
    other = twin.to_twin(sample.z, sample.labels)
    generator = np.random.default_rng(0)
    for label in range(scm.n_labels):
        for environment in range(scm.n_environments):
            rows = (sample.labels == label) & (sample.environments == environment)
            drawn = twin.means[label, environment] + generator.normal(size=(4000, 5))
            direction = generator.normal(size=5)
            assert ks_2samp(other[rows] @ direction, drawn @ direction).pvalue > 1e-4
            radius = np.linalg.norm(other[rows] - twin.means[label, environment], axis=1)
            theirs = np.linalg.norm(drawn - twin.means[label, environment], axis=1)
            assert ks_2samp(radius, theirs).pvalue > 1e-4


@pytest.mark.parametrize(("statistics", "accuracy"), [(1, 1e-6), (2, 1e-4)])
def test_the_twist_changes_no_volume(statistics, accuracy):
    _, twin, sample = make_twin(n_environments=3, n_labels=2, statistics=statistics)
    z, labels = sample.z[:5], sample.labels[:5]
    step = 1e-5
    for i in range(5):
        columns = [
            twin.to_twin(z[i : i + 1] + step * np.eye(5)[j], labels[i : i + 1])
            - twin.to_twin(z[i : i + 1] - step * np.eye(5)[j], labels[i : i + 1])
            for j in range(5)
        ]
        jacobian = np.concatenate(columns) / (2 * step)
        assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=accuracy)


def test_the_twist_changes_no_density_of_any_environment():
    scm, twin, sample = make_twin(n_environments=3, n_labels=2)
    other = twin.to_twin(sample.z, sample.labels)
    for environment in range(3):
        before = np.square(sample.z - scm.means[sample.labels, environment]).sum(axis=1)
        after = np.square(other - twin.means[sample.labels, environment]).sum(axis=1)
        np.testing.assert_allclose(after, before, atol=1e-8)


def test_enough_environments_leave_one_affine_map_for_every_label_but_not_one_for_all():
    _, twin, sample = make_twin(n_labels=2, n_environments=6)
    assert twin.n_twisted == (0, 0)
    other = twin.to_twin(sample.z, sample.labels)
    assert average_within(affine_r2, sample.z, other, sample.labels) == pytest.approx(1.0)
    assert affine_r2(sample.z, other) < 0.9
    scores = twin.log_propensity(other, sample.environments)
    assert score_distance(sample.log_propensity, scores) > 0.1


def test_with_k_2_a_single_environment_can_be_twisted():
    scm, twin, sample = make_twin(statistics=2, n_labels=11)
    assert scm.identifiability().holds
    assert recover_statistics(scm, twin, sample) < 0.6


def test_with_k_2_three_environments_leave_a_flow_and_four_more_leave_none():
    scm, twin, sample = make_twin(statistics=2, n_labels=4, n_environments=3)
    assert scm.identifiability().holds  # 12 pairs, 11 needed
    assert twin.n_twisted == (2, 2, 2, 2)
    assert recover_statistics(scm, twin, sample) < 0.9
    scm, twin, sample = make_twin(statistics=2, n_labels=2, n_environments=7)
    assert twin.n_twisted == (0, 0)
    assert recover_statistics(scm, twin, sample) == pytest.approx(1.0)
    other = twin.to_twin(sample.z, sample.labels)
    matched = average_within(mean_correlation, sample.z, other, sample.labels)
    assert matched == pytest.approx(1.0)
    assert mean_correlation(sample.z, other) < 0.95


def recover_statistics(scm, twin, sample):
    other = twin.to_twin(sample.z, sample.labels)
    statistics = scm.sufficient_statistics(sample.z), scm.sufficient_statistics(other)
    return average_within(affine_r2, *statistics, sample.labels)


@pytest.mark.parametrize("n_environments", [1, 3])
def test_the_density_of_every_pair_is_the_twins_too(n_environments):
    scm, twin, sample = make_twin(statistics=2, n_environments=n_environments)
    other = twin.to_twin(sample.z, sample.labels)
    for environment in range(n_environments):  # of all environments, not only an example's own
        densities = []
        for z, model in ((sample.z, scm), (other, twin)):
            means = model.means[sample.labels, environment]
            spread = model.log_variances[sample.labels, environment]
            densities.append((np.square(z - means) * np.exp(-spread) + spread).sum(axis=1))
        np.testing.assert_allclose(*densities, atol=1e-8 if n_environments == 1 else 2e-4)
