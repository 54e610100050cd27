"""Room 3: scores -> matches or weights -> batches (Algorithm 1). Never sees an image."""

from equipoise.balance.encoding import as_table
from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.infer import infer_environments
from equipoise.balance.large import LazyMatches, MatchSource, find_matches
from equipoise.balance.match import check_matching, choose_tolerance, match_covariate, match_scores
from equipoise.balance.matches import (
    Matches,
    keep_closest,
    pack_matches,
    unpack_matches,
    write_matches,
    write_weights,
)
from equipoise.balance.propensity import Propensity, fit_propensity
from equipoise.balance.sampler import BalancedBatchSampler, WeightedBatchSampler, choose_n_matches
from equipoise.balance.scores import common_support
from equipoise.balance.weights import (
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
    "as_table",
    "balanced_frequencies",
    "check_matching",
    "choose_n_matches",
    "choose_tolerance",
    "common_support",
    "effective_sample_size",
    "entropy_weights",
    "find_matches",
    "fit_propensity",
    "infer_environments",
    "keep_closest",
    "match_covariate",
    "match_scores",
    "overlap_weights",
    "pack_matches",
    "unpack_matches",
    "write_matches",
    "write_weights",
]
