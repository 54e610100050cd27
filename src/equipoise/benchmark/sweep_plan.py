"""From the lists of a sweep to its runs, each with all its settings and its own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from equipoise.benchmark.recipes import make_settings
from equipoise.benchmark.run import name_environments
from equipoise.benchmark.run_data import find_environment
from equipoise.benchmark.run_name import name_run
from equipoise.benchmark.search import draw_search
from equipoise.benchmark.settings import RunSettings
from equipoise.benchmark.sweep_spec import SweepSpec
from equipoise.data import EnvironmentDataset, get_dataset

NESTED = ("hyperparameters", "balancer")  # settings that are dictionaries: merged, not replaced


@dataclass(frozen=True)
class PlannedRun:
    """One run of a sweep: its settings, and the name of its directory."""

    settings: RunSettings
    name: str
    draw: int = 0

    def __str__(self) -> str:
        s = self.settings
        left_out = [e for e in (s.test_environment, s.validation_environment) if e is not None]
        draw = f", draw {self.draw}" if self.draw else ""
        without = f" without {' and '.join(map(str, left_out))}" if left_out else ""
        return f"{s.dataset} {s.algorithm} {s.sampling}{without}, seed {s.seed}{draw}"


def plan_sweep(spec: SweepSpec, *, data_dir: str | Path | None = None) -> tuple[PlannedRun, ...]:
    """Every run of the sweep once, the first seed of every cell before the second of any.

    Datasets change fastest, so that workers that start together fit different balancers.
    """
    datasets = {name: _open(name, spec.settings, data_dir) for name in spec.datasets}
    planned: dict[str, PlannedRun] = {}
    unused = set(range(len(spec.adjustments)))
    for seed, draw, algorithm, sampling in product(
        spec.seeds, range(spec.draws), spec.algorithms, spec.samplings
    ):
        for dataset, left_out in _interleave(spec, datasets):
            listed = {
                "dataset": dataset,
                "algorithm": algorithm,
                "sampling": sampling,
                "seed": seed,
                **left_out,
            }
            run = plan_run(spec, listed, datasets[dataset], draw=draw)
            planned.setdefault(run.name, run)
            unused -= {i for i in unused if spec.adjustments[i].applies(listed)}
    for i in sorted(unused):
        raise ValueError(
            f"no run of the sweep is meant by the adjustment for {dict(spec.adjustments[i].only)}; "
            "environments are told by name"
        )
    return tuple(planned.values())


def plan_run(
    spec: SweepSpec, listed: Mapping[str, Any], dataset: EnvironmentDataset, *, draw: int = 0
) -> PlannedRun:
    """One run: recipe, then draw, then fixed settings, then adjustments, the later the stronger."""
    shape = dataset.input_shape
    drawn = draw_search(listed["algorithm"], draw, listed["seed"], shape)
    settings: dict[str, Any] = {"hyperparameters": drawn}
    settings = merge_settings(settings, spec.settings)
    for adjustment in spec.adjustments:
        if adjustment.applies(listed):
            settings = merge_settings(settings, adjustment.settings)
    made = make_settings(spec.profile, input_shape=shape, **{**settings, **listed})
    made = name_environments(made, dataset)
    return PlannedRun(made, name_run(made, shape), draw)


def merge_settings(settings: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with further ones in their place; hyperparameters and balancer entry by entry.

    >>> merge_settings({"hyperparameters": {"lr": 1.0}}, {"hyperparameters": {"dropout": 0.1}})
    {'hyperparameters': {'lr': 1.0, 'dropout': 0.1}}
    """
    merged = {**settings, **further}
    for name in NESTED:
        if name in settings and name in further:
            merged[name] = {**settings[name], **further[name]}
    return merged


def _interleave(
    spec: SweepSpec, datasets: Mapping[str, EnvironmentDataset]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The first test environment of every dataset, then the second of each, …"""
    waiting = {name: _choose_left_out(spec, name, dataset) for name, dataset in datasets.items()}
    while any(waiting.values()):
        for name, left_out in waiting.items():
            if left_out:
                yield name, left_out.pop(0)


def _choose_left_out(
    spec: SweepSpec, name: str, dataset: EnvironmentDataset
) -> list[dict[str, Any]]:
    """What is left out in each run: a test environment, or a pair, whichever is the test one."""
    names = dataset.environment_names
    given = spec.test_environments
    if isinstance(given, Mapping):
        given = given.get(name)
    wanted = names if given is None else given
    tests = []
    for each in wanted:
        position = find_environment(dataset, each)
        assert position is not None  # only None has no position
        tests.append(names[position])
    chosen: list[dict[str, Any]] = [{"test_environment": test} for test in dict.fromkeys(tests)]
    if spec.leave_one_domain_out:
        pairs = {
            tuple(sorted((test, other), key=names.index))
            for test in tests
            for other in names
            if other != test
        }
        chosen += [
            {"test_environment": test, "validation_environment": other}
            for test, other in sorted(pairs, key=lambda pair: [names.index(e) for e in pair])
        ]
    return chosen


def _open(
    name: str, settings: Mapping[str, Any], data_dir: str | Path | None
) -> EnvironmentDataset:
    return get_dataset(name, data_dir=data_dir, data_seed=int(settings.get("data_seed", 0)))
