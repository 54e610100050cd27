"""The verdict on real handwriting: painted digits, and digits with nothing to take away."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from equipoise import CausalBalancer

SETTINGS = {"hidden": (128,), "max_steps": 400, "random_state": 0}


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return (found.images / 16).astype(np.float32), found.target


def test_a_colour_that_goes_with_the_label_is_named_strong_and_its_removal_too(digits):
    """As on ColoredMNIST10, at a size that a test can afford."""
    images, numbers = digits
    rng = np.random.default_rng(0)
    n = len(images)
    sites = rng.integers(2, size=n)
    labels = np.where(rng.random(n) < 0.1, rng.integers(3, size=n), numbers % 3)
    kept = rng.random(n) < np.array([0.9, 0.7])[sites]
    colour = np.where(kept, labels, rng.integers(3, size=n))
    painted = np.zeros((n, 3, 8, 8), dtype=np.float32)
    painted[np.arange(n), colour] = images
    balancer = CausalBalancer(**SETTINGS).fit(painted, labels, sites)
    blind = balancer.diagnose()  # no colour given: the verdict must find it in z alone
    assert blind.verdict.level == "removed"
    assert "strong dependence" in blind.verdict.headline
    known = balancer.diagnose(known={"colour": colour}).worst.query("kind == 'known'")
    assert known["smd_before"].min() > 0.5
    assert known["smd_after"].mean() < 0.1


def test_digits_without_a_covariate_have_little_to_gain(digits):
    """As on RotatedMNIST: z takes in the digits' own shapes, and matching on them gains nothing."""
    images, numbers = digits
    sites = np.random.default_rng(0).integers(2, size=len(images))
    balancer = CausalBalancer(**SETTINGS).fit(images[:, None], numbers, sites)
    verdict = balancer.diagnose().verdict
    assert verdict.level == "nothing to gain"
    assert "little to gain" in verdict.headline
    assert any("Random batches will do" in advice for advice in verdict.advice)
