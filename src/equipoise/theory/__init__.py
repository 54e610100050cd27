"""The paper's theorems as experiments with an answer: synthetic worlds whose truth is known."""

from equipoise.checks import require

require("matplotlib", extra="report")
require("rich", extra="cli")

from equipoise.theory.balanced_batches import BALANCE
from equipoise.theory.identification import IDENTIFIABILITY
from equipoise.theory.minimax import MINIMAX
from equipoise.theory.outcome import Outcome
from equipoise.theory.scm import (
    SyntheticSample,
    SyntheticSCM,
    affine_r2,
    average_within,
    draw_mixing,
    mean_correlation,
    score_distance,
)
from equipoise.theory.twins import ObservationalTwin

run_identifiability = IDENTIFIABILITY.run  # Theorem 3.3
run_balance = BALANCE.run  # Theorems 3.6 and 3.7
run_minimax = MINIMAX.run  # Theorem 2.4

__all__ = [
    "ObservationalTwin",
    "Outcome",
    "SyntheticSCM",
    "SyntheticSample",
    "affine_r2",
    "average_within",
    "draw_mixing",
    "mean_correlation",
    "run_balance",
    "run_identifiability",
    "run_minimax",
    "score_distance",
]
