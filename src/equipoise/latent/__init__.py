"""Room 2: (x, y, e) -> latent covariate z. The conditional VAE, its priors, identifiability."""

from equipoise.latent.choice import LatentCandidate, LatentChoice, choose_latent
from equipoise.latent.columns import (
    ColumnEncoding,
    Features,
    PixelComponents,
    encode_columns,
    encode_components,
)
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
from equipoise.latent.varying import VaryingPart, compare_interaction, find_varying

__all__ = [
    "ColumnEncoding",
    "DiagonalGaussian",
    "Features",
    "FitHistory",
    "FitSettings",
    "FixedVarianceGaussian",
    "Identifiability",
    "LatentCandidate",
    "LatentChoice",
    "LatentCovariateModel",
    "MLPDecoder",
    "MLPEncoder",
    "PixelComponents",
    "PriorFamily",
    "ResidualDecoder",
    "ResidualEncoder",
    "VaryingPart",
    "choose_latent",
    "choose_latent_dim",
    "compare_interaction",
    "encode_columns",
    "encode_components",
    "examine_identifiability",
    "examine_labels",
    "find_varying",
    "fit_model",
    "get_prior",
    "label_free_z",
    "log_scores",
    "start_from_components",
]
