"""The reading copy is an oracle: same weights, same scores; same scores, same matches."""

import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.balance import BalancedBatchSampler, match_scores
from equipoise.balance.distances import pair_distances
from equipoise.data import as_source
from equipoise.latent import LatentCovariateModel, log_scores

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def paper():
    spec = importlib.util.spec_from_file_location("paper", ROOT / "examples" / "paper.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def examples():
    """Small images of three labels in two environments; brightness goes with the label."""
    rng = np.random.default_rng(0)
    y, e = rng.integers(3, size=240), rng.integers(2, size=240)
    z = (rng.random(240) < 0.9) * y + 0.3 * rng.normal(size=240)
    x = torch.from_numpy(z[:, None, None] + rng.normal(size=(240, 1, 16))).float()
    return x, torch.from_numpy(y), torch.from_numpy(e)


@pytest.fixture(scope="module")
def fitted(paper, examples):
    torch.manual_seed(0)
    vae = paper.VAE(16, n_labels=3, n_environments=2)
    paper.fit(vae, *examples, steps=150)
    return vae


class OneInput(torch.nn.Module):
    """The page's encoder or decoder as the package calls it."""

    def __init__(self, network, shape=None):
        super().__init__()
        self.network, self.shape = network, shape

    def forward(self, *given):
        out = self.network(*given)
        return out.reshape(-1, *self.shape) if self.shape else out


@pytest.fixture(scope="module")
def packaged(fitted, examples):
    """The package's model with the page's weights."""
    _, y, e = examples
    model = LatentCovariateModel(
        (1, 1, 16),
        3,
        2,
        encoder=OneInput(fitted.encode),
        decoder=OneInput(fitted.decode, (1, 1, 16)),
    )
    model.prior.mean.data.copy_(fitted.prior)
    for label, environment in zip(y, e, strict=True):
        model.label_counts[environment, label] += 1
    return model


def test_the_page_is_at_most_150_lines():
    assert len((ROOT / "examples" / "paper.py").read_text().splitlines()) <= 150


def test_latent_size_and_elbo_are_the_packages(fitted, packaged, examples):
    assert fitted.n == packaged.settings.latent_dim == 5
    x, y, e = examples
    noise = torch.randn(len(y), fitted.n, generator=torch.Generator().manual_seed(1))
    parts = packaged.negative_elbo(x[:, None], y, e, noise)
    assert torch.allclose(-fitted.elbo(x, y, e, noise), sum(parts), rtol=1e-5)


@pytest.mark.parametrize("reading", ["observed", "hypothesised"])
def test_the_same_weights_give_the_same_scores(paper, fitted, packaged, examples, reading):
    x, y, e = examples
    expected = paper.log_propensity(fitted, x, y, e, reading)
    found = log_scores(packaged, as_source(x[:, None]), y.numpy(), e.numpy(), reading=reading)
    assert np.abs(np.exp(expected).sum(1) - 1).max() < 1e-12
    assert np.abs(found - expected).max() < 1e-6


def test_the_same_scores_give_the_same_matches(paper, fitted, examples):
    x, y, e = examples
    labels, environments = y.numpy(), e.numpy()
    scores = paper.log_propensity(fitted, x, y, e)
    page = paper.match(scores, labels, environments, rows_at_once=32)
    package = match_scores(scores, labels, environments, n_nearest=1).indices[:, :, 0]
    assert ((page < 0) == (package < 0)).all()
    anchors, columns = np.nonzero((page != package) & (page >= 0))
    # Where they differ, both are equally near.
    near = pair_distances("kl", scores[anchors], scores[page[anchors, columns]])
    also = pair_distances("kl", scores[anchors], scores[package[anchors, columns]])
    assert len(anchors) < 0.01 * page.size
    assert np.allclose(near, also, atol=1e-12)


def test_batches_of_the_page_and_of_the_package_show_examples_equally_often(paper, examples):
    _, y, e = examples
    labels, environments = y.numpy(), e.numpy()
    scores = np.log(np.random.default_rng(3).dirichlet(np.ones(3), size=len(labels)))
    matches = match_scores(scores, labels, environments, n_nearest=1)
    assert (paper.match(scores, labels, environments) == matches.indices[:, :, 0]).all()
    options = {"anchors_per_environment": 8, "n_matches": 1}
    sampler = BalancedBatchSampler(labels, environments, matches, **options)
    package, steps = Counter(), 100 * len(sampler)
    for step in range(steps):
        package.update(np.concatenate(sampler.draw_step(step)).tolist())
    page, generator = Counter(), np.random.default_rng(0)
    for _ in range(steps):
        batch = paper.balanced_batch(
            matches.indices[:, :, 0], labels, environments, 8, 1, generator
        )
        page.update(batch.tolist())
    assert package.total() == page.total() == steps * 32
    for row in range(len(labels)):
        difference = abs(package[row] - page[row])
        assert difference < 5 * np.sqrt(2 * max(page[row], package[row], 25))
