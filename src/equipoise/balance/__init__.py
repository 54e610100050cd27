"""Room 3: z -> scores -> matches -> batches. Works on arrays only: never sees an image."""

from equipoise.balance.dependence import (
    cross_table,
    mutual_information,
    same_covariate_rate,
    standardized_differences,
)
from equipoise.balance.diagnostics import BalanceDiagnostics, diagnose_balance
from equipoise.balance.frequencies import balanced_frequencies, effective_sample_size
from equipoise.balance.gain import Gain
from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.match import match_scores
from equipoise.balance.match_lazy import LazyMatches
from equipoise.balance.match_support import common_support
from equipoise.balance.matches import Matches, MatchSource
from equipoise.balance.near_ties import keep_near_ties
from equipoise.balance.oracle import match_covariate
from equipoise.balance.sampler import BalancedBatchSampler
from equipoise.balance.summary import summarise_balance
from equipoise.balance.verdict import Verdict

__all__ = [
    "POOLED",
    "BalanceDiagnostics",
    "BalancedBatchSampler",
    "Gain",
    "Groups",
    "LazyMatches",
    "MatchSource",
    "Matches",
    "Verdict",
    "balanced_frequencies",
    "common_support",
    "cross_table",
    "diagnose_balance",
    "effective_sample_size",
    "keep_near_ties",
    "match_covariate",
    "match_scores",
    "mutual_information",
    "same_covariate_rate",
    "standardized_differences",
    "summarise_balance",
]
