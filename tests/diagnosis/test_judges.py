"""The small classifiers see what their kind of data needs, and the same seed calls the same."""

import numpy as np
import pytest

from equipoise.diagnosis.judges import COMPONENTS, SIDE, STRONGEST, SmallNetwork, make_judges


def draw_bars(n, seed, side=12):
    """Horizontal or vertical bars anywhere: no pixel and no sum of pixels tells the label."""
    rng = np.random.default_rng(seed)
    y, place = rng.integers(2, size=n), rng.integers(side, size=n)
    images = 0.2 * rng.normal(size=(n, 1, side, side)).astype(np.float32)
    rows = np.arange(n)
    images[rows[y == 0], 0, place[y == 0]] += 1.0
    images[rows[y == 1], 0, :, place[y == 1]] += 1.0
    return images, y


def test_images_are_judged_by_a_network_and_tables_by_a_linear_model_and_trees():
    images, y = draw_bars(60, 0)
    assert [type(judge.make()).__name__ for judge in make_judges(images, y, None, 0)] == [
        "SmallNetwork"
    ]
    assert [type(own.make()).__name__ for own in make_judges(images[:, 0, 0], y, None, 0)] == [
        "LogisticRegression",
        "HistGradientBoostingClassifier",
    ]


def test_the_network_learns_shapes():
    images, y = draw_bars(2000, 0)
    (judge,) = make_judges(images, y, None, seed=0)
    rows = np.arange(2000)
    called = judge.call(y, np.ones(2000), rows[:1500], rows[1500:])
    assert np.mean(called == y[1500:]) > 0.95


def test_the_network_draws_examples_by_their_weights():
    """Half of the labels are wrong, and have no weight."""
    images, y = draw_bars(2000, 1)
    told, mass = np.where(np.arange(2000) % 2, y, 1 - y), np.arange(2000) % 2 * 1.0
    called = SmallNetwork(0).fit(images[:1500], told[:1500], mass[:1500]).predict(images[1500:])
    assert np.mean(called == y[1500:]) > 0.9


def test_the_same_seed_calls_the_same_and_leaves_the_global_generator_alone():
    import torch

    images, y = draw_bars(300, 2)
    torch.manual_seed(5)
    once, again = (SmallNetwork(3).fit(images, y, np.ones(300)).predict(images) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))


@pytest.mark.parametrize("shape", [(3, 100, 40), (1, 28, 28), (2, 33, 8), (1, 1, 7)])
def test_images_of_any_size_are_seen_at_32_pixels_a_side_at_most(shape):
    rng = np.random.default_rng(0)
    images, y = rng.normal(size=(50, *shape)), np.tile([0, 1], 25)
    (judge,) = make_judges(images, y, None, 0)
    assert judge.view.shape[:2] == (50, shape[0])
    assert max(judge.view.shape[2:]) <= SIDE
    judge.call(y, np.ones(50), np.arange(40), np.arange(40, 50))


def test_wide_tables_are_seen_by_components_and_their_strongest_columns():
    rng = np.random.default_rng(0)
    y = np.tile([0, 1], 200)
    x = rng.normal(size=(400, 300))
    x[:, 7] += 2 * y
    linear, _ = make_judges(x, y, None, 0)
    assert COMPONENTS < linear.view.shape[1] <= COMPONENTS + STRONGEST
    narrow, _ = make_judges(x[:, :60], y, None, 0)
    assert narrow.view.shape == (400, 60)
