"""Room 5: runs, model selection and records of what they saw."""

from equipoise.benchmark.recipes import RECIPES, make_settings
from equipoise.benchmark.records import Record
from equipoise.benchmark.run_data import RunData, split_for_run
from equipoise.benchmark.selection import SELECTIONS, Selection
from equipoise.benchmark.settings import SAMPLINGS, RunSettings
from equipoise.benchmark.training import RunResult, Training, fit_balancer, train

__all__ = [
    "RECIPES",
    "SAMPLINGS",
    "SELECTIONS",
    "Record",
    "RunData",
    "RunResult",
    "RunSettings",
    "Selection",
    "Training",
    "fit_balancer",
    "make_settings",
    "split_for_run",
    "train",
]
