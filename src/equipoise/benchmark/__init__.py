"""Room 5: runs, model selection and records of what they saw."""

from equipoise.checks import require

require("rich", extra="cli")
require("yaml", extra="cli")

from equipoise.benchmark.preparation import fit_balancer
from equipoise.benchmark.recipes import RECIPES, make_settings
from equipoise.benchmark.records import Record
from equipoise.benchmark.result import RunResult
from equipoise.benchmark.run import execute_run, train_run
from equipoise.benchmark.run_data import RunData, split_for_run
from equipoise.benchmark.selection import RULES, SELECTIONS, Selection
from equipoise.benchmark.settings import SAMPLINGS, RunSettings
from equipoise.benchmark.sweep import SweepResult, run_sweep
from equipoise.benchmark.sweep_file import read_sweep
from equipoise.benchmark.sweep_plan import plan_sweep
from equipoise.benchmark.sweep_spec import SweepSpec
from equipoise.benchmark.trained_run import TrainedRun, load_run
from equipoise.benchmark.training import Training, train
from equipoise.data import as_environments

__all__ = [
    "RECIPES",
    "RULES",
    "SAMPLINGS",
    "SELECTIONS",
    "Record",
    "RunData",
    "RunResult",
    "RunSettings",
    "Selection",
    "SweepResult",
    "SweepSpec",
    "TrainedRun",
    "Training",
    "as_environments",
    "execute_run",
    "fit_balancer",
    "load_run",
    "make_settings",
    "plan_sweep",
    "read_sweep",
    "run_sweep",
    "split_for_run",
    "train",
    "train_run",
]
