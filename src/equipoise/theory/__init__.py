"""The paper's theorems as experiments with an answer: synthetic worlds whose truth is known."""

from equipoise.checks import require

require("matplotlib", extra="report")
require("rich", extra="cli")

from equipoise.theory.outcome import Outcome
from equipoise.theory.recovery import (
    affine_r2,
    average_within,
    match_distance,
    mean_correlation,
    score_distance,
)
from equipoise.theory.run_balance import run_balance
from equipoise.theory.run_identifiability import run_identifiability
from equipoise.theory.run_minimax import run_minimax
from equipoise.theory.scm import SyntheticSample, SyntheticSCM
from equipoise.theory.segments import SegmentedSample, sample_segments
from equipoise.theory.twins import ObservationalTwin

__all__ = [
    "ObservationalTwin",
    "Outcome",
    "SegmentedSample",
    "SyntheticSCM",
    "SyntheticSample",
    "affine_r2",
    "average_within",
    "match_distance",
    "mean_correlation",
    "run_balance",
    "run_identifiability",
    "run_minimax",
    "sample_segments",
    "score_distance",
]
