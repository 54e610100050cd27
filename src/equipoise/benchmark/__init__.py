"""Room 5: runs, sweeps, model selection and result tables."""

from equipoise.checks import require

require("rich", extra="cli")
require("yaml", extra="cli")

from equipoise.benchmark.balancers import (
    choose_cache,
    find_balancer,
    needs_balancer,
    obtain_balancer,
)
from equipoise.benchmark.batches import make_batches, tabulate_epoch
from equipoise.benchmark.data import RunData, digest_code, split_for_run
from equipoise.benchmark.directory import RunDescription, RunDirectory
from equipoise.benchmark.domainbed import read_domainbed, write_chosen
from equipoise.benchmark.plan import Adjustment, SweepSpec, merge_settings, plan_sweep
from equipoise.benchmark.recipes import RECIPES, make_settings, parse_choices, parse_value
from equipoise.benchmark.run import OWN_FEATURIZER, execute_run, train_run
from equipoise.benchmark.selection import (
    RULES,
    SELECTIONS,
    FinishedRun,
    Record,
    SelectedRun,
    Trial,
    select_runs,
)
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.sweep import SweepResult, Workers, collect_runs, run_sweep, write_manifest
from equipoise.benchmark.sweep_file import read_sweep
from equipoise.benchmark.tables import (
    FORMATS,
    Cell,
    ResultTable,
    Row,
    make_tables,
    mark_best,
    pivot_runs,
    summarise,
    write_tables,
)
from equipoise.benchmark.trained import (
    PREFERRED,
    TrainedRun,
    check_predictions,
    export_run,
    load_run,
    predict_table,
    read_dataset,
    read_examples,
    write_predictions,
)
from equipoise.benchmark.training import RunResult, train
from equipoise.benchmark.workers import InlineWorker, LocalWorkers, RayWorkers

__all__ = [
    "FORMATS",
    "OWN_FEATURIZER",
    "PREFERRED",
    "RECIPES",
    "RULES",
    "SELECTIONS",
    "Adjustment",
    "Cell",
    "FinishedRun",
    "InlineWorker",
    "LocalWorkers",
    "RayWorkers",
    "Record",
    "ResultTable",
    "Row",
    "RunData",
    "RunDescription",
    "RunDirectory",
    "RunResult",
    "RunSettings",
    "SelectedRun",
    "SweepResult",
    "SweepSpec",
    "TrainedRun",
    "Trial",
    "Workers",
    "check_predictions",
    "choose_cache",
    "collect_runs",
    "digest_code",
    "execute_run",
    "export_run",
    "find_balancer",
    "load_run",
    "make_batches",
    "make_settings",
    "make_tables",
    "mark_best",
    "merge_settings",
    "needs_balancer",
    "obtain_balancer",
    "parse_choices",
    "parse_value",
    "pivot_runs",
    "plan_sweep",
    "predict_table",
    "read_dataset",
    "read_domainbed",
    "read_examples",
    "read_sweep",
    "run_sweep",
    "select_runs",
    "split_for_run",
    "summarise",
    "tabulate_epoch",
    "train",
    "train_run",
    "write_chosen",
    "write_manifest",
    "write_predictions",
    "write_tables",
]
