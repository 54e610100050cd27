"""The verdict from beginning to end: tables and real handwriting, with a spurious link or none."""

import numpy as np
import pytest
from scipy.ndimage import rotate
from sklearn.datasets import load_digits

from equipoise import CausalBalancer
from equipoise.data import get_dataset
from equipoise.data.fetch import mnist_cache
from tests.integration.planted_table import make_planted_table


@pytest.fixture(scope="module")
def digits():
    found = load_digits()
    return (found.images / 16).astype(np.float32), found.target


def fit_table(table, seed=0):
    columns = table.drop(columns=["ill", "hospital", "scanner"])
    return CausalBalancer(random_state=seed).fit(columns, table["ill"], table["hospital"])


@pytest.mark.parametrize("seed", range(3))
def test_a_colour_that_goes_with_the_label_is_found_and_balancing_protects(digits, seed):
    images, numbers = digits
    rng = np.random.default_rng(seed)
    n = len(images)
    sites = rng.integers(2, size=n)
    labels = np.where(rng.random(n) < 0.1, rng.integers(3, size=n), numbers % 3)
    kept = rng.random(n) < np.array([0.9, 0.7])[sites]
    colour = np.where(kept, labels, rng.integers(3, size=n))
    painted = np.zeros((n, 3, 8, 8), dtype=np.float32)
    painted[np.arange(n), colour] = images
    balancer = CausalBalancer(random_state=seed).fit(painted, labels, sites)
    verdict = balancer.diagnose().verdict  # no colour given: found in the pixels alone
    assert balancer.n_varying_ >= 1
    assert verdict.recommendation in ("balance", "trade-off")
    assert verdict.protection > 10
    known = balancer.diagnose(known={"colour": colour}, with_price=False).worst
    known = known.query("kind == 'known'")
    assert known["smd_before"].min() > 0.5
    assert known["smd_after"].mean() < 0.5 * known["smd_before"].mean()


@pytest.mark.slow
@pytest.mark.skipif(not mnist_cache().is_dir(), reason="needs MNIST, which is not fetched here")
@pytest.mark.parametrize(
    ("name", "rows", "recommendation"),
    [("ColoredMNIST10", 30_000, "trade-off"), ("RotatedMNIST", 6_000, "leave as it is")],
)
def test_the_verdict_on_the_datasets_of_the_paper(name, rows, recommendation):
    data = get_dataset(name)
    training = np.flatnonzero(data.environments < len(data.environment_names) - 1)[:rows]
    balancer = CausalBalancer(random_state=0).fit(data.subset(training))
    assert balancer.diagnose().verdict.recommendation == recommendation
    if name == "ColoredMNIST10":
        assert balancer.n_varying_ == 9  # ten colours


@pytest.mark.parametrize("seed", range(2))
def test_digits_with_nothing_planted_have_nothing_found(digits, seed):
    images, numbers = digits
    sites = np.random.default_rng(seed).integers(2, size=len(images))
    balancer = CausalBalancer(random_state=seed).fit(images[:, None], numbers, sites)
    assert balancer.n_varying_ == 0
    assert balancer.diagnose().verdict.recommendation in ("leave as it is", "cannot tell")


@pytest.mark.parametrize("seed", range(2))
def test_digits_rotated_by_environment_are_never_to_be_balanced(digits, seed):
    """As in RotatedMNIST: pixels change their meaning with the angle, and are content still."""
    images, numbers = digits
    sites = np.random.default_rng(seed).integers(3, size=len(images))
    turned = np.stack([rotate(images, a, axes=(1, 2), reshape=False) for a in (0, 30, 60)])
    x = turned[sites, np.arange(len(images))][:, None].astype(np.float32)
    found = CausalBalancer(random_state=seed).fit(x, numbers, sites).diagnose()
    assert found.verdict.recommendation in ("leave as it is", "cannot tell")


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_planted_confounder_is_found_and_never_left_as_it_is(seed):
    balancer = fit_table(make_planted_table(1500, seed=seed), seed)
    found = balancer.diagnose()
    assert balancer.n_varying_ >= 1
    assert found.verdict.recommendation == "trade-off"
    assert found.verdict.state in ("removed", "reduced")
    assert found.verdict.protection > 10


@pytest.mark.parametrize("seed", range(3))
def test_a_table_with_nothing_planted_is_left_as_it_is(seed):
    table = make_planted_table(1500, strengths=(0.5, 0.5, 0.5), seed=seed)
    balancer = fit_table(table, seed)
    verdict = balancer.diagnose().verdict
    assert balancer.n_varying_ == 0
    assert verdict.state == "nothing found"
    assert verdict.recommendation in ("leave as it is", "cannot tell")
    assert np.isnan(verdict.price)
