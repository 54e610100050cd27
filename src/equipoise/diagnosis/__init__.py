"""Room 3b: what was found, what is left of it, what balancing costs, in tables and words."""

from equipoise.diagnosis.dependence import (
    cross_table,
    mutual_information,
    same_covariate_rate,
    standardized_differences,
)
from equipoise.diagnosis.diagnostics import BalanceDiagnostics, diagnose_balance
from equipoise.diagnosis.gain import Gain
from equipoise.diagnosis.summary import summarise_balance
from equipoise.diagnosis.verdict import Verdict

__all__ = [
    "BalanceDiagnostics",
    "Gain",
    "Verdict",
    "cross_table",
    "diagnose_balance",
    "mutual_information",
    "same_covariate_rate",
    "standardized_differences",
    "summarise_balance",
]
