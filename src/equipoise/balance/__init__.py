"""Room 3: scores -> matches -> batches. Works on arrays only: never sees an image."""

from equipoise.balance.frequencies import balanced_frequencies, effective_sample_size
from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.infer import infer_environments
from equipoise.balance.match import match_scores
from equipoise.balance.match_lazy import LazyMatches
from equipoise.balance.match_support import common_support
from equipoise.balance.matches import Matches, MatchSource
from equipoise.balance.near_ties import keep_closest, keep_near_ties
from equipoise.balance.oracle import match_covariate
from equipoise.balance.propensity import Propensity, fit_propensity
from equipoise.balance.sampler import BalancedBatchSampler, WeightedBatchSampler
from equipoise.balance.weights import Weights, entropy_weights, overlap_weights

__all__ = [
    "POOLED",
    "BalancedBatchSampler",
    "Groups",
    "LazyMatches",
    "MatchSource",
    "Matches",
    "Propensity",
    "WeightedBatchSampler",
    "Weights",
    "balanced_frequencies",
    "common_support",
    "effective_sample_size",
    "entropy_weights",
    "fit_propensity",
    "infer_environments",
    "keep_closest",
    "keep_near_ties",
    "match_covariate",
    "match_scores",
    "overlap_weights",
]
