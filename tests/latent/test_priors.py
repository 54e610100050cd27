"""Closed forms agree with torch.distributions and with sampling."""

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from equipoise.latent import PriorFamily, get_prior
from equipoise.latent.priors import DiagonalGaussian, FixedVarianceGaussian


def make(family: type[PriorFamily]) -> PriorFamily:
    prior = family(3, 2, 4).double()
    generator = torch.Generator().manual_seed(0)
    for parameter in prior.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return prior


def as_normal(prior: PriorFamily, y: torch.Tensor, e: torch.Tensor) -> Normal:
    variance = prior.log_variance[y, e].exp() if hasattr(prior, "log_variance") else torch.ones(())
    return Normal(prior.mean[y, e], variance.sqrt())


FAMILIES = [FixedVarianceGaussian, DiagonalGaussian]
Y, E = torch.tensor([0, 2, 1]), torch.tensor([1, 0, 1])


@pytest.mark.parametrize("family", FAMILIES)
def test_log_density_is_that_of_the_normal_distribution(family):
    prior, z = make(family), torch.randn(3, 4, dtype=torch.float64)
    expected = as_normal(prior, Y, E).log_prob(z).sum(-1)
    torch.testing.assert_close(prior.log_density(z, Y, E), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_divergence_is_the_kl_divergence_of_the_normal_distributions(family):
    prior = make(family)
    mean, log_variance = torch.randn(2, 3, 4, dtype=torch.float64)
    own = Normal(mean, (0.5 * log_variance).exp())
    expected = kl_divergence(own, as_normal(prior, Y, E)).sum(-1)
    torch.testing.assert_close(prior.divergence(mean, log_variance, Y, E), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_natural_parameters_reproduce_density_ratios(family):
    """log p(z|y,e) − log p(z'|y,e) = λ·(T(z) − T(z')) + a base measure without y and e."""
    prior = make(family)
    z = torch.randn(2, 4, dtype=torch.float64)
    k = prior.statistics_per_dimension
    statistics = torch.cat([z, z.square()], dim=-1)[:, : 4 * k]
    natural = prior.natural_parameters()  # [m, E, nk]

    def difference(y: int, e: int) -> torch.Tensor:
        pair = torch.tensor([y, y]), torch.tensor([e, e])
        density = prior.log_density(z, *pair)
        return density[0] - density[1] - natural[y, e] @ (statistics[0] - statistics[1])

    base = difference(0, 0)
    for y, e in [(1, 0), (2, 1)]:
        torch.testing.assert_close(difference(y, e), base)


def test_a_new_family_is_a_new_class():
    class Doubled(FixedVarianceGaussian):
        name = "doubled"

    try:
        assert get_prior("doubled") is Doubled
    finally:
        del PriorFamily.families["doubled"]
    with pytest.raises(ValueError, match="Did you mean 'gaussian'"):
        get_prior("gausian")
