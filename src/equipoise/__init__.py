"""equipoise: training batches without the spurious correlation."""

__version__ = "0.1.0"

from equipoise.balance import BalancedBatchSampler, Matches, match_covariate, match_scores
from equipoise.balancer import CausalBalancer
from equipoise.latent import LatentCovariateModel

__all__ = [
    "BalancedBatchSampler",
    "CausalBalancer",
    "LatentCovariateModel",
    "Matches",
    "__version__",
    "match_covariate",
    "match_scores",
]
