"""The model keeps the theorem's bookkeeping and survives saving."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from torch import nn

from equipoise.latent import LatentCovariateModel
from equipoise.latent import model as model_module
from equipoise.latent.model import ModelSettings, choose_latent_dim


@pytest.mark.parametrize(
    ("labels", "environments", "k", "shape", "expected"),
    [
        (10, 2, 1, (10, 28, 28), 16),  # ColoredMNIST10, the paper's Table 4
        (2, 2, 1, (2, 28, 28), 3),  # ColoredMNIST
        (10, 5, 1, (1, 28, 28), 16),  # RotatedMNIST
        (5, 3, 2, (3, 224, 224), 7),  # VLCS
        (7, 3, 2, (3, 224, 224), 10),  # PACS
        (65, 3, 2, (3, 224, 224), 64),  # OfficeHome
        (10, 3, 2, (3, 224, 224), 14),  # TerraIncognita
        (345, 5, 2, (3, 224, 224), 64),  # DomainNet
        (10, 5, 1, (4,), 4),  # never more than there are features
    ],
)
def test_latent_size_follows_the_identifiability_rule(labels, environments, k, shape, expected):
    assert choose_latent_dim(labels, environments, k, shape) == expected


def test_a_size_that_breaks_the_rule_warns_with_the_numbers():
    with pytest.warns(UserWarning, match=r"2 labels × 2 environments = 4 pairs, but n·k = 8"):
        LatentCovariateModel((5,), 2, 2, latent_dim=4, prior="gaussian")


def test_encoding_under_every_label_equals_encoding_under_each():
    model = LatentCovariateModel((6,), 3, 2, hidden=(8, 8))
    x, e = torch.randn(5, 6), torch.tensor([0, 1, 1, 0, 1])
    together = model.encode_hypotheses(x, e)
    for y in range(3):
        alone, _ = model.encode(x, torch.full((5,), y), e)
        torch.testing.assert_close(together[:, y], alone)


def test_own_modules_take_the_place_of_the_perceptrons():
    class Linear(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(6, 4)

        def forward(self, x, y, e):
            return self.map(x + y[:, None]).chunk(2, dim=-1)

    class Back(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(2, 6)

        def forward(self, z, y):
            return self.map(z)

    model = LatentCovariateModel((6,), 2, 2, latent_dim=2, encoder=Linear(), decoder=Back())
    x, e = torch.randn(4, 6), torch.zeros(4, dtype=torch.long)
    assert model.encode_hypotheses(x, e).shape == (4, 2, 2)
    torch.testing.assert_close(
        model.encode_hypotheses(x, e)[:, 1], model.encode(x, torch.ones_like(e), e)[0]
    )


def test_elbo_is_a_lower_bound_of_the_likelihood_of_a_linear_gaussian_model():
    """With x = z + noise everything is Gaussian: log p(x|y,e) = log N(μ(y,e), 2)."""

    class Exact(nn.Module):
        def forward(self, x, y, e):
            return 0.5 * x, torch.full_like(x, np.log(0.5))

    class Identity(nn.Module):
        def forward(self, z, y):
            return z

    model = LatentCovariateModel((1,), 2, 2, latent_dim=1, encoder=Exact(), decoder=Identity())
    x = torch.full((20000, 1), 1.3)
    y = e = torch.zeros(20000, dtype=torch.long)
    noise = torch.randn(20000, 1, generator=torch.Generator().manual_seed(0))
    reconstruction, divergence = model.negative_elbo(x, y, e, noise)
    constant = 0.5 * np.log(2 * np.pi)  # of the unit-variance noise, left out of the loss
    elbo = -float((reconstruction + divergence).detach().mean()) - constant
    evidence = float(torch.distributions.Normal(0.0, np.sqrt(2.0)).log_prob(torch.tensor(1.3)))
    assert elbo == pytest.approx(evidence, abs=0.02)  # q is the true posterior: the bound is tight


def test_a_saved_model_comes_back_the_same(tmp_path):
    model = LatentCovariateModel((6,), 3, 2, hidden=(8,), prior="gaussian", latent_dim=2, seed=3)
    model.x_shift, model.x_scale = torch.randn(6), torch.rand(6)
    model.save(tmp_path / "model.safetensors")
    again = LatentCovariateModel.load(tmp_path / "model.safetensors")
    assert again.settings == model.settings
    x, y, e = torch.randn(4, 6), torch.tensor([0, 1, 2, 0]), torch.tensor([0, 1, 0, 1])
    for ours, theirs in zip(model.encode(x, y, e), again.encode(x, y, e), strict=True):
        assert torch.equal(ours, theirs)


def test_a_damaged_file_is_a_clear_error(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not a model")
    with pytest.raises(ValueError, match=r"model\.safetensors is not a readable"):
        LatentCovariateModel.load(path)
    with pytest.raises(ValueError, match="no saved state"):
        LatentCovariateModel.load(tmp_path / "missing")


def test_an_unfitted_model_has_no_label_frequencies():
    with pytest.raises(ValueError, match="has not been fitted"):
        LatentCovariateModel((6,), 2, 2).log_label_frequencies()


def test_images_that_give_hundreds_of_millions_of_weights_are_warned_of(monkeypatch):
    settings = ModelSettings((3, 224, 224), 2, 2, 3, "gaussian", (1024, 1024, 1024))
    told = r"3 × 224 × 224 pixels .* 308 million .*data features"
    # A machine may lack the memory for it.
    with pytest.warns(UserWarning, match=told), suppress(ValueError):
        model_module._check_size(settings, warn=True)
    monkeypatch.setattr(model_module, "LARGEST_PERCEPTRONS", 1000)
    with pytest.warns(UserWarning, match="3 × 8 × 8 pixels"):
        LatentCovariateModel((3, 8, 8), 2, 2)


def test_feature_vectors_and_images_of_own_networks_are_not_warned_of(monkeypatch, recwarn):
    monkeypatch.setattr(model_module, "LARGEST_PERCEPTRONS", 1000)
    LatentCovariateModel((1280,), 2, 2)
    LatentCovariateModel((3, 8, 8), 2, 2, encoder=nn.Identity(), decoder=nn.Identity())
    assert not recwarn.list
