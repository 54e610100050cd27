"""Room 3: z -> scores -> matches -> batches. Works on arrays only: never sees an image."""

from equipoise.balance.dependence import (
    cross_table,
    mutual_information,
    same_covariate_rate,
    standardized_differences,
)
from equipoise.balance.frequencies import balanced_frequencies, effective_sample_size
from equipoise.balance.match import match_scores
from equipoise.balance.matches import Matches, MatchSource
from equipoise.balance.near_ties import keep_near_ties
from equipoise.balance.oracle import match_covariate
from equipoise.balance.sampler import BalancedBatchSampler

__all__ = [
    "BalancedBatchSampler",
    "MatchSource",
    "Matches",
    "balanced_frequencies",
    "cross_table",
    "effective_sample_size",
    "keep_near_ties",
    "match_covariate",
    "match_scores",
    "mutual_information",
    "same_covariate_rate",
    "standardized_differences",
]
