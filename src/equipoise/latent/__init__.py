"""Room 2: (x, y, e) -> latent covariate z. The conditional VAE, its priors, identifiability."""

from equipoise.latent.choice import LatentCandidate, LatentChoice, choose_latent
from equipoise.latent.fitting import FitHistory, FitSettings, fit_model
from equipoise.latent.identifiability import (
    Identifiability,
    examine_identifiability,
    examine_labels,
)
from equipoise.latent.model import LatentCovariateModel, choose_latent_dim
from equipoise.latent.networks import MLPDecoder, MLPEncoder
from equipoise.latent.priors import DiagonalGaussian, FixedVarianceGaussian, PriorFamily, get_prior
from equipoise.latent.residual import (
    ResidualDecoder,
    ResidualEncoder,
    start_from_components,
)
from equipoise.latent.scores import label_free_z, log_scores

__all__ = [
    "DiagonalGaussian",
    "FitHistory",
    "FitSettings",
    "FixedVarianceGaussian",
    "Identifiability",
    "LatentCandidate",
    "LatentChoice",
    "LatentCovariateModel",
    "MLPDecoder",
    "MLPEncoder",
    "PriorFamily",
    "ResidualDecoder",
    "ResidualEncoder",
    "choose_latent",
    "choose_latent_dim",
    "examine_identifiability",
    "examine_labels",
    "fit_model",
    "get_prior",
    "label_free_z",
    "log_scores",
    "start_from_components",
]
