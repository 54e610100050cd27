"""Theorem 2.4: closed forms against plain counting, and networks on balanced batches near them."""

import numpy as np
import pytest
from scipy.stats import norm

from equipoise.theory.minimax import (
    WORLDS,
    DiscreteWorld,
    GaussianWorld,
    MinimaxCase,
    find_best_tilt,
    tilted_risks,
    train_network,
)


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)
def test_the_balanced_classifier_has_the_least_worst_case_risk(world):
    balanced = world.worst_bayes_risk(0.0)
    for environment in world.grid:
        if environment != 0.0:
            worst = world.worst_bayes_risk(environment)
            assert worst[0] > balanced[0]
            assert worst[1] >= balanced[1] - 1e-12


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)
def test_the_balanced_classifier_has_one_risk_everywhere(world):
    risks = [world.bayes_risk(0.0, environment) for environment in world.grid]
    np.testing.assert_allclose(risks, np.broadcast_to(risks[0], (len(risks), 2)))


@pytest.mark.parametrize("world", WORLDS.values(), ids=lambda world: world.name)
def test_in_its_own_environment_every_bayes_classifier_is_the_best(world):
    for within in world.grid:
        own = world.bayes_risk(within, within)[0]
        assert all(world.bayes_risk(other, within)[0] >= own - 1e-12 for other in world.grid)


def test_discrete_risks_are_what_counting_gives():
    world = DiscreteWorld()
    generator = np.random.default_rng(0)
    x, labels = world.sample(-0.5, 200_000, generator)
    u, z = (x[:, 0] > 0).astype(int), (x[:, 1:].mean(axis=1) > 0).astype(int)
    joint = world.joint(0.6)
    posterior = (joint / joint.sum(axis=0))[:, u, z]  # [2, N]
    cross_entropy, error = world.bayes_risk(0.6, -0.5)
    chosen = posterior[labels, np.arange(len(labels))]
    assert -np.log(chosen).mean() == pytest.approx(cross_entropy, abs=0.01)
    assert (posterior.argmax(axis=0) != labels).mean() == pytest.approx(error, abs=0.005)


def test_gaussian_risks_are_what_sampling_gives():
    world = GaussianWorld()
    x, labels = world.sample(-0.5, 200_000, np.random.default_rng(0))
    variance = 1.0 + 0.5**2 / 6
    density = [
        norm.pdf(x[:, 0], s * world.shift, 1.0)
        * norm.pdf(x[:, 1:].mean(axis=1), s * 1.0, np.sqrt(variance))
        for s in (-1.0, 1.0)
    ]
    posterior = np.array(density) / np.sum(density, axis=0)
    cross_entropy, error = world.bayes_risk(1.0, -0.5)
    chosen = posterior[labels, np.arange(len(labels))]
    assert -np.log(chosen).mean() == pytest.approx(cross_entropy, abs=0.02)
    assert (posterior.argmax(axis=0) != labels).mean() == pytest.approx(error, abs=0.005)


def test_beyond_the_theorem_uneven_labels_can_be_better():
    assert tilted_risks((0.25, 0.25), 0.5)[0] == pytest.approx(tilted_risks((0.25, 0.25), 0.5)[1])
    tilt, best, balanced = find_best_tilt((0.25, 0.25))
    assert tilt == pytest.approx(0.5)
    assert best == pytest.approx(balanced)
    tilt, best, balanced = find_best_tilt((0.05, 0.4))
    assert tilt > 0.5
    assert best < balanced - 0.01


@pytest.mark.parametrize("name", list(WORLDS))
def test_balanced_batches_come_near_the_balanced_classifier_and_erm_does_not(name):
    world = WORLDS[name]
    best = world.worst_bayes_risk(0.0)[1]
    worst = {}
    for batches in ("random", "balanced"):
        record = train_network(MinimaxCase(name, batches, 3000, 150, 4000, seed=0))
        assert len(record["error"]) == len(world.grid)
        worst[batches] = max(record["error"])
    assert worst["balanced"] < best + 0.07
    assert worst["random"] > best + 0.3
