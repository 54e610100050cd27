"""Carry out the runs of a sweep that are not there yet, and gather finished ones."""

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from equipoise.benchmark.directory import OtherCode, RunDirectory
from equipoise.benchmark.domainbed import holds_domainbed, read_domainbed
from equipoise.benchmark.plan import LISTED, PlannedRun
from equipoise.benchmark.recipes import parse_value, resolve_balancer
from equipoise.benchmark.selection import RECORDS_VERSION, FinishedRun, check_version
from equipoise.benchmark.training import RunResult
from equipoise.benchmark.workers import LocalWorkers, Report, SweepTask, TaskOutcome
from equipoise.checks import check_choice
from equipoise.data import check_dataset
from equipoise.files import DamagedFile, read_json, write_json
from equipoise.progress import Tracker, track


def write_manifest(directory: str | Path, name: str, runs: Sequence[PlannedRun]) -> Path:
    """Write the names of a sweep's runs beside them."""
    path = Path(directory) / f"sweep-{name}.json"
    content = {
        "version": RECORDS_VERSION,
        "sweep": name,
        "runs": {run.name: str(run) for run in runs},
    }
    write_json(path, content)
    return path


def read_manifest(path: str | Path) -> list[Path]:
    """The directories of a sweep's runs."""
    path = Path(path)
    hint = "give the directory of the runs, or the sweep-NAME.json in it"
    found = read_json(path, {"version?": Any, "runs": dict}, stamped=False, hint=hint)
    check_version(found.get("version"))
    names = list(read_json(path, {"runs": dict}, hint=hint)["runs"])
    for name in names:
        if Path(name).name != name:
            raise DamagedFile(f"{path} is damaged (runs names {name!r}); {hint}")
    return [path.parent / name for name in names]


# What a search may vary, and what does not change a number.
NOT_COMPARED = (*LISTED, "hyperparameters", "selections")


def collect_runs(path: str | Path, *, where: Sequence[str] = ()) -> list[FinishedRun]:
    """Finished runs with a test environment: all below a directory, or those of a sweep's file.

    DomainBed's logs in the directory count as well. `where` keeps runs with the given settings,
    as ``name=value``. Begun runs do not count.
    """
    path = Path(path)
    results = [
        (run.name, result)
        for run in _find_runs(path)
        if (result := RunDirectory(run).load_result())
    ]
    found = read_domainbed(path) if holds_domainbed(path) else []
    if not results and not found:
        raise ValueError(
            f"no finished run in {path}; a run ends with a result.json (`equipoise sweep` goes on "
            "with those that have none)"
        )
    found[:0] = [
        describe_result(n, r) for n, r in results if r.settings.test_environment is not None
    ]
    for condition in where:
        found = _keep(found, condition)
    if not found:
        told = f" with {', '.join(where)}" if where else ""
        raise ValueError(f"no finished run in {path} has a test environment{told}")
    return found


def _find_runs(path: Path) -> list[Path]:
    if path.is_file():
        return read_manifest(path)
    if not path.is_dir():
        raise ValueError(f"there are no runs at {path}")
    if (path / "settings.json").is_file():
        return [path]
    return sorted(file.parent for file in path.rglob("settings.json"))


def describe_result(name: str, result: RunResult) -> FinishedRun:
    """A run of ours as selection rules see it."""
    s = result.settings
    values = s.to_json()
    others = {name: value for name, value in values.items() if name not in NOT_COMPARED}
    left_out = s.validation_environment
    return FinishedRun(
        **{name: values[name] for name in ("dataset", "algorithm", "sampling", "seed")},
        test_environment=str(s.test_environment),
        validation_environment=None if left_out is None else str(left_out),
        hyperparameters=dict(s.hyperparameters),
        records=result.records,
        settings={**others, "balancer": resolve_balancer(s), "code": result.code},
        name=name,
    )


def _keep(runs: Iterable[FinishedRun], condition: str) -> list[FinishedRun]:
    name, equals, text = condition.partition("=")
    if not equals:
        raise ValueError(f"expected name=value, got {condition!r}")
    kept, known = [], set()
    for run in runs:
        values = {**{field: getattr(run, field) for field in LISTED}, **run.flatten()}
        known |= set(values)
        if name in values and (values[name] == parse_value(text) or str(values[name]) == text):
            kept.append(run)
    check_choice("setting", name, sorted(known))
    return kept


class Workers(Protocol):
    """Whoever carries out tasks: processes here, or Ray."""

    threads: int  # of each run

    def run(
        self, tasks: Sequence[SweepTask], report: Report
    ) -> Generator[tuple[int, TaskOutcome], None, None]:
        """Positions and outcomes of the tasks, as they end."""


@dataclass(frozen=True)
class SweepResult:
    """The runs of a sweep: finished ones with their results, failed ones with their errors."""

    directory: Path
    runs: tuple[PlannedRun, ...]
    results: dict[str, RunResult]
    errors: dict[str, str]

    def finished(self) -> list[FinishedRun]:
        """The finished runs in the order of the plan, as selection rules see them."""
        return [
            describe_result(run.name, self.results[run.name])
            for run in self.runs
            if run.name in self.results
        ]


def run_sweep(
    runs: Sequence[PlannedRun],
    directory: str | Path,
    *,
    workers: Workers | None = None,
    imports: tuple[str, ...] = (),
    data_dir: str | Path | None = None,
    device: str = "cpu",
    verbose: bool = False,
    console: Console | None = None,
) -> SweepResult:
    """Carry out what is missing, in order; finished runs in `directory` are taken as they are.

    Interrupted anywhere, the same call goes on. A run that fails keeps its error and is tried
    again by the next call.

    Parameters
    ----------
    runs : list of PlannedRun
        What `plan_sweep` gave.
    directory : str or Path
        Where each run has a directory of its own name; sweeps may share it.
    workers : Workers, optional
        [default: one process on this machine]
    """
    directory = Path(directory).absolute()
    workers = workers or LocalWorkers(1)
    console = console or Console(stderr=True)
    results = {run.name: found for run in runs if (found := _find_result(directory, run))}
    missing = [run for run in runs if run.name not in results]
    tasks = [
        SweepTask(
            settings=run.settings,
            directory=directory / run.name,
            source=_locate(run.settings.dataset, data_dir),
            imports=imports,
            data_dir=None if data_dir is None else Path(data_dir).absolute(),
            device=device,
            threads=workers.threads,
        )
        for run in missing
    ]
    errors: dict[str, str] = {}
    # Checkpoints are minutes apart: speed is measured over hours, not over seconds.
    n_steps, shown = sum(run.settings.steps for run in missing), verbose and bool(missing)
    with track(n_steps, "steps", enabled=shown, console=console, memory=7200.0) as tracker:
        watch = _Watch(len(runs), missing, tracker, console if verbose else None)
        with closing(workers.run(tasks, watch.reach)) as ended:
            for position, outcome in ended:
                run = missing[position]
                found = _find_result(directory, run) if outcome.error is None else None
                if found is not None:
                    results[run.name] = found
                else:
                    errors[run.name] = outcome.error or "the run left no result"
                watch.end(position, outcome, found)
    return SweepResult(directory, tuple(runs), results, errors)


def _locate(dataset: str, data_dir: str | Path | None) -> str:
    """A path as any process finds it; a name as it is."""
    path = check_dataset(dataset, data_dir=data_dir)
    return dataset if path is None else str(path.absolute())


def _find_result(directory: Path, run: PlannedRun) -> RunResult | None:
    place = RunDirectory(directory / run.name)
    try:
        if place.result.is_file():
            place.check_code(place.describe())
        return place.load_result()
    except OtherCode:
        raise
    except ValueError:  # damaged: the run itself says how, and fails or repairs it
        return None


class _Watch:
    """Live progress over the steps of all runs, with the time left, and a line for each end."""

    def __init__(
        self, n_runs: int, missing: Sequence[PlannedRun], tracker: Tracker, console: Console | None
    ) -> None:
        self._missing, self._tracker, self._console = missing, tracker, console
        self._n_runs, self._there = n_runs, n_runs - len(missing)
        self._steps = [0] * len(missing)
        self._ended = self._failed = 0
        self._started = time.monotonic()
        if self._there:
            self._tell(f"{self._there} of the runs are finished already")
        self._show()

    def reach(self, position: int, step: int) -> None:
        self._steps[position] = step
        self._show()

    def end(self, position: int, outcome: TaskOutcome, result: RunResult | None) -> None:
        run = self._missing[position]
        self._steps[position] = run.settings.steps
        self._ended += 1
        self._failed += outcome.error is not None
        self._show()
        for warning in outcome.warnings:
            self._tell(f"{run}: {warning}", style="yellow")
        if outcome.error is not None:
            self._tell(f"failed: {run}: {outcome.error}", style="red")
            return
        seen = [
            f"{rule} {record.ood_accuracy:.1%}"
            for rule, record in (result.selected if result else {}).items()
            if record.ood_accuracy is not None
        ]
        done, total = sum(self._steps), sum(run.settings.steps for run in self._missing)
        left = (time.monotonic() - self._started) * (total - done) / max(1, done)
        self._tell(
            f"[{self._there + self._ended}/{self._n_runs}] {run}: "
            f"{', '.join(seen)} in {outcome.seconds:.0f} s; "
            + (f"{left / 60:.0f} min left" if left > 90 else f"{left:.0f} s left")
        )

    def _tell(self, text: str, style: str | None = None) -> None:
        if self._console is not None:
            self._console.print(text, style=style, highlight=False, markup=False)

    def _show(self) -> None:
        failed = f", {self._failed} failed" if self._failed else ""
        self._tracker.reach(sum(self._steps), f"{self._ended}/{len(self._missing)} runs{failed}")
