"""All finished runs in a directory, or those that a sweep names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from equipoise.benchmark.parsing import parse_value
from equipoise.benchmark.result import RunResult
from equipoise.benchmark.run_directory import RunDirectory
from equipoise.benchmark.run_name import resolve_balancer
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.sweep_manifest import read_manifest
from equipoise.benchmark.sweep_spec import LISTED
from equipoise.benchmark.trials import FinishedRun
from equipoise.choices import check_choice

# What a search may vary, and what does not change a number.
NOT_COMPARED = (*LISTED, "hyperparameters", "selections")


def collect_runs(path: str | Path, *, where: Sequence[str] = ()) -> list[FinishedRun]:
    """Finished runs with a test environment: all below a directory, or those of a sweep's file.

    `where` keeps those with the given settings, as ``name=value``. Begun runs do not count.
    """
    path = Path(path)
    results = [(run.name, result) for run in _find_runs(path) if (result := _load(run))]
    if not results:
        raise ValueError(
            f"no finished run in {path}; a run ends with a result.json (`equipoise sweep` goes on "
            "with those that have none)"
        )
    found = [describe_result(name, result) for name, result in results if _has_test(result)]
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


def _load(path: Path) -> RunResult | None:
    return RunDirectory(path).load_result()


def _has_test(result: RunResult) -> bool:
    return result.settings.test_environment is not None


def describe_result(name: str, result: RunResult) -> FinishedRun:
    """A run of ours as selection rules see it."""
    s = result.settings
    other = None if s.validation_environment is None else str(s.validation_environment)
    return FinishedRun(
        dataset=s.dataset,
        algorithm=s.algorithm,
        sampling=s.sampling,
        test_environment=str(s.test_environment),
        validation_environment=other,
        seed=s.seed,
        hyperparameters=dict(s.hyperparameters),
        records=result.records,
        settings=_further_settings(s),
        name=name,
    )


def _further_settings(settings: RunSettings) -> dict[str, Any]:
    values = {name: v for name, v in settings.to_json().items() if name not in NOT_COMPARED}
    return {**values, "balancer": resolve_balancer(settings)}


def _keep(runs: Iterable[FinishedRun], condition: str) -> list[FinishedRun]:
    name, equals, text = condition.partition("=")
    if not equals:
        raise ValueError(f"expected name=value, got {condition!r}")
    kept, known = [], set()
    for run in runs:
        values = {
            **{field: getattr(run, field) for field in LISTED},
            **run.hyperparameters,
            **run.settings,
            **{f"balancer.{n}": v for n, v in run.settings.get("balancer", {}).items()},
        }
        known |= set(values)
        if name in values and (values[name] == parse_value(text) or str(values[name]) == text):
            kept.append(run)
    check_choice("setting", name, sorted(known))
    return kept
