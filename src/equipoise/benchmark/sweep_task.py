"""One run of a sweep as any worker carries it out, here or on another machine."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from equipoise.benchmark.own_modules import import_own
from equipoise.benchmark.records import Record
from equipoise.benchmark.run import execute_run
from equipoise.benchmark.settings import RunSettings
from equipoise.data import EnvironmentDataset, get_dataset
from equipoise.files import write_json

ERROR_FILE = "error.json"


@dataclass(frozen=True)
class SweepTask:
    """A run to carry out: settings, directory, and what a worker must know to do it."""

    settings: RunSettings
    directory: Path
    source: str  # the dataset's name, or its path wherever the worker stands
    imports: tuple[str, ...] = ()
    data_dir: Path | None = None
    device: str = "cpu"
    threads: int = 1


@dataclass(frozen=True)
class TaskOutcome:
    """How a run ended: without an error, or with the sentence that says why it failed."""

    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()


def carry_out(task: SweepTask, report: Callable[[int], None] | None = None) -> TaskOutcome:
    """Train, calling `report` with the steps done at every checkpoint; never raises.

    An error is kept in the run's directory as `error.json`, with where it happened; a later
    success removes it.
    """
    import torch

    started = time.monotonic()
    torch.set_num_threads(task.threads)
    import_own(task.imports)
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        try:
            execute_run(
                task.settings,
                _open(task.source, task.data_dir, task.settings.data_seed),
                task.directory,
                device=task.device,
                on_checkpoint=None if report is None else lambda record: _tell(report, record),
                wait=True,
            )
            (task.directory / ERROR_FILE).unlink(missing_ok=True)
        except Exception as problem:  # whatever it is, the other runs go on
            error = f"{type(problem).__name__}: {problem}"
            keep_error(task.directory, error, traceback.format_exc())
    told = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return TaskOutcome(error, time.monotonic() - started, told)


def keep_error(directory: Path, error: str, where: str) -> None:
    """Write why a run failed into its directory, if that can be written at all."""
    try:
        write_json(directory / ERROR_FILE, {"error": error, "traceback": where})
    except OSError:  # a full disk, perhaps what failed the run: the caller still has the error
        return


def _tell(report: Callable[[int], None], record: Record) -> None:
    report(record.step)


@lru_cache(maxsize=2)
def _open(name: str, data_dir: Path | None, data_seed: int) -> EnvironmentDataset:
    """A worker meets the same few datasets again and again."""
    return get_dataset(name, data_dir=data_dir, data_seed=data_seed)
