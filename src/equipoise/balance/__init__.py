"""Room 3: scores -> matches -> batches. Works on arrays only: never sees an image."""

from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.infer import infer_environments
from equipoise.balance.large import LazyMatches, find_matches
from equipoise.balance.match import match_covariate, match_scores
from equipoise.balance.matches import Matches, MatchSource, keep_closest, keep_near_ties
from equipoise.balance.propensity import Propensity, fit_propensity
from equipoise.balance.sampler import (
    BalancedBatchSampler,
    WeightedBatchSampler,
    choose_n_matches,
)
from equipoise.balance.scores import common_support
from equipoise.balance.weights import (
    Weights,
    balanced_frequencies,
    effective_sample_size,
    entropy_weights,
    overlap_weights,
)

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
    "choose_n_matches",
    "common_support",
    "effective_sample_size",
    "entropy_weights",
    "find_matches",
    "fit_propensity",
    "infer_environments",
    "keep_closest",
    "keep_near_ties",
    "match_covariate",
    "match_scores",
    "overlap_weights",
]
