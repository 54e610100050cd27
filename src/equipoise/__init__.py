"""equipoise: training batches without the spurious correlation."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
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

_HOMES = {
    "BalancedBatchSampler": "equipoise.balance",
    "CausalBalancer": "equipoise.balancer",
    "LatentCovariateModel": "equipoise.latent",
    "Matches": "equipoise.balance",
    "match_covariate": "equipoise.balance",
    "match_scores": "equipoise.balance",
}


def __getattr__(name: str) -> Any:
    """Import on first use: `equipoise --help` need not wait for torch."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
