"""Room 2: (x, y, e) -> latent covariate z: the ELBO, equation 3, the L of Theorem 3.3."""

from equipoise.latent.choice import AUTO, LatentChoice, choose_latent
from equipoise.latent.columns import (
    ColumnEncoding,
    Features,
    PixelComponents,
    encode_columns,
    encode_components,
)
from equipoise.latent.fitting import FitSettings, fit_model, flush_denormals
from equipoise.latent.identifiability import (
    Identifiability,
    examine_identifiability,
)
from equipoise.latent.interaction import FlipTest, compare_interaction
from equipoise.latent.model import LatentCovariateModel
from equipoise.latent.priors import PriorFamily, get_prior
from equipoise.latent.residual import (
    ResidualDecoder,
    ResidualEncoder,
    start_from_components,
)
from equipoise.latent.scores import READINGS, label_free_z, log_scores
from equipoise.latent.varying import VaryingPart, find_varying

__all__ = [
    "AUTO",
    "READINGS",
    "ColumnEncoding",
    "Features",
    "FitSettings",
    "FlipTest",
    "Identifiability",
    "LatentChoice",
    "LatentCovariateModel",
    "PixelComponents",
    "PriorFamily",
    "ResidualDecoder",
    "ResidualEncoder",
    "VaryingPart",
    "choose_latent",
    "compare_interaction",
    "encode_columns",
    "encode_components",
    "examine_identifiability",
    "find_varying",
    "fit_model",
    "flush_denormals",
    "get_prior",
    "label_free_z",
    "log_scores",
    "start_from_components",
]
