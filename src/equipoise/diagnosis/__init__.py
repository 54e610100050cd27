"""Room 3b: what was found, what is left of it, what balancing costs, in tables and words."""

from equipoise.diagnosis.covariates import THRESHOLD
from equipoise.diagnosis.diagnostics import BalanceDiagnostics, diagnose_balance
from equipoise.diagnosis.information import (
    cross_table,
    mutual_information,
    same_covariate_rate,
    standardized_differences,
)
from equipoise.diagnosis.price import Bargain, measure_bargain
from equipoise.diagnosis.summary import summarise_balance
from equipoise.diagnosis.verdict import Verdict

__all__ = [
    "THRESHOLD",
    "BalanceDiagnostics",
    "Bargain",
    "Verdict",
    "cross_table",
    "diagnose_balance",
    "measure_bargain",
    "mutual_information",
    "same_covariate_rate",
    "standardized_differences",
    "summarise_balance",
]
