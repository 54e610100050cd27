"""The paper's theorems as experiments with an answer: synthetic worlds whose truth is known."""

from equipoise.checks import require

require("matplotlib", extra="report")
require("rich", extra="cli")

from equipoise.theory.balanced_batches import run_balance
from equipoise.theory.identification import run_identifiability
from equipoise.theory.minimax import run_minimax
from equipoise.theory.outcome import Outcome
from equipoise.theory.recovery import affine_r2, average_within, mean_correlation, score_distance
from equipoise.theory.scm import SegmentedSample, SyntheticSample, SyntheticSCM, sample_segments
from equipoise.theory.twins import ObservationalTwin

__all__ = [
    "ObservationalTwin",
    "Outcome",
    "SegmentedSample",
    "SyntheticSCM",
    "SyntheticSample",
    "affine_r2",
    "average_within",
    "mean_correlation",
    "run_balance",
    "run_identifiability",
    "run_minimax",
    "sample_segments",
    "score_distance",
]
