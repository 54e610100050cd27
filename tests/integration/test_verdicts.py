"""The verdict on real handwriting: painted digits, and digits with nothing to take away."""

import numpy as np
import pytest
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from equipoise import CausalBalancer
from tests.integration.planted_table import make_planted_table

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


@pytest.mark.parametrize("seed", range(2))
def test_digits_rotated_by_environment_have_little_to_gain(digits, seed):
    """As on RotatedMNIST: z is written differently at every angle, but tells the same."""
    images, numbers = digits
    sites = np.random.default_rng(seed).integers(3, size=len(images))
    turned = np.stack([rotate(images, a, axes=(1, 2), reshape=False) for a in (0, 30, 60)])
    x = turned[sites, np.arange(len(images))][:, None].astype(np.float32)
    found = CausalBalancer(**(SETTINGS | {"random_state": seed})).fit(x, numbers, sites).diagnose()
    assert found.strength["told"].min() > 0.5
    assert found.verdict.level == "nothing to gain"


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_planted_confounder_is_never_called_nothing_to_gain(seed):
    table = make_planted_table(900, seed=seed)
    columns = table.drop(columns=["ill", "hospital", "scanner"])
    balancer = CausalBalancer(latent_dim=1, hidden=(64, 64), max_steps=400, random_state=seed)
    found = balancer.fit(columns, table["ill"], table["hospital"]).diagnose()
    assert found.strength["told"].is_monotonic_decreasing  # as planted: 0.9, 0.8 and 0.7
    assert found.verdict.level in ("removed", "reduced")
    assert "dependence of the label on Z was found" in found.verdict.headline
