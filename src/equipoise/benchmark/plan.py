"""What a sweep consists of, and its runs, each with all its settings and its own name."""

import importlib
import importlib.util
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import Any

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.benchmark.data import find_environment
from equipoise.benchmark.recipes import RECIPES, draw_search, make_settings, name_run
from equipoise.benchmark.run import name_environments
from equipoise.benchmark.settings import SAMPLINGS, RunSettings, check_type
from equipoise.checks import check_choice
from equipoise.data import EnvironmentDataset, get_dataset


def import_own(modules: tuple[str, ...]) -> None:
    """Import modules by name, or `.py` files by path, for what they register."""
    for module in modules:
        if not module.endswith(".py"):
            importlib.import_module(module)
            continue
        path = Path(module).absolute()
        name = f"equipoise_own_{path.stem}"
        if name in sys.modules:
            continue
        if not path.is_file():
            raise ValueError(f"imports names {module}, but there is no such file")
        described = importlib.util.spec_from_file_location(name, path)
        assert described is not None
        assert described.loader is not None  # as for every .py file
        loaded = importlib.util.module_from_spec(described)
        sys.modules[name] = loaded
        described.loader.exec_module(loaded)


Environment = int | float | str
MOST_RUNS = 100_000

# What the lists of a sweep decide is not one of its fixed settings.
LISTED = ("dataset", "algorithm", "sampling", "test_environment", "validation_environment", "seed")
FIXED = tuple(f.name for f in fields(RunSettings) if f.name not in LISTED)


@dataclass(frozen=True, kw_only=True)
class Adjustment:
    """Settings of some of the runs only: of those that agree with every entry of `only`.

    >>> Adjustment(only={"algorithm": "IRM"}, settings={"hyperparameters": {"irm_lambda": 10}})
    Adjustment(only={'algorithm': 'IRM'}, settings={'hyperparameters': {'irm_lambda': 10}})
    """

    only: Mapping[str, Any]
    settings: Mapping[str, Any]

    def applies(self, run: Mapping[str, Any]) -> bool:
        """Whether a run with these listed values is meant; environments are told by name."""
        return all(str(run.get(name)) == str(value) for name, value in self.only.items())


@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """Runs = datasets × algorithms × samplings × test environments × draws × seeds.

    Parameters
    ----------
    datasets, algorithms, samplings : tuple of str
        Names.
    test_environments : tuple or dict, optional
        Those left out in turn, by name or position, for all datasets or for each [default: every
        one].
    seeds : tuple of int
        Of weights, batches and balancer.
    draws : int
        Of hyperparameters; the first is the recipe's, the others are random.
    profile : str
        The recipe.
    settings : dict
        Further fields of `RunSettings`, the same for all runs.
    adjustments : tuple of Adjustment
        Settings of some of the runs.
    leave_one_domain_out : bool
        Add the runs with two environments left out which that rule needs.
    imports : tuple of str
        Modules or `.py` files that register datasets or algorithms of your own.

    >>> SweepSpec(datasets=("ColoredMNIST",), algorithms=("ERM",), seeds=(0, 1)).samplings
    ('random', 'balanced')
    """

    datasets: tuple[str, ...]
    algorithms: tuple[str, ...]
    samplings: tuple[str, ...] = ("random", "balanced")
    test_environments: tuple[Environment, ...] | Mapping[str, tuple[Environment, ...]] | None = None
    seeds: tuple[int, ...] = (0,)
    draws: int = 1
    profile: str = "domainbed"
    settings: Mapping[str, Any] = field(default_factory=dict)
    adjustments: tuple[Adjustment, ...] = ()
    leave_one_domain_out: bool = False
    imports: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        import_own(self.imports)  # first: what they register may be named below
        for name in ("datasets", "algorithms", "samplings", "seeds"):
            if not getattr(self, name):
                raise ValueError(f"{name} is empty: a sweep needs at least one")
        if self.test_environments is not None and not self.test_environments:
            raise ValueError("test_environments is empty: name some, or leave it out to take all")
        check_type("draws", self.draws, int)
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        for seed in self.seeds:
            check_type("a seed", seed, int)
        adjusted = [name for each in self.adjustments for name in each.settings]
        conditions = [name for each in self.adjustments for name in each.only]
        for kind, names, allowed in (
            ("algorithm", self.algorithms, list_algorithms()),
            ("sampling", self.samplings, SAMPLINGS),
            ("profile", [self.profile], RECIPES),
            ("condition", conditions, LISTED),
            ("setting", [*self.settings, *adjusted], FIXED),
        ):
            for name in names:
                check_choice(kind, name, allowed)
        for adjustment in self.adjustments:
            if "algorithm" in adjustment.only:
                get_algorithm(adjustment.only["algorithm"])


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
    lists = (spec.datasets, spec.algorithms, spec.samplings, spec.seeds)
    n_runs = math.prod(map(len, lists)) * spec.draws
    if n_runs > MOST_RUNS:
        raise ValueError(
            f"the sweep has {n_runs:,} runs for each test environment, and {MOST_RUNS:,} are the "
            "most that one sweep may have: take fewer seeds or draws"
        )
    data_seed = int(spec.settings.get("data_seed", 0))
    datasets = {
        name: get_dataset(name, data_dir=data_dir, data_seed=data_seed) for name in spec.datasets
    }
    planned: dict[str, PlannedRun] = {}
    unused = set(range(len(spec.adjustments)))
    for seed, draw, algorithm, sampling in product(
        spec.seeds, range(spec.draws), spec.algorithms, spec.samplings
    ):
        for dataset, left_out in _interleave(spec, datasets):
            cell = {"dataset": dataset, "algorithm": algorithm, "sampling": sampling}
            listed = {**cell, "seed": seed, **left_out}
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
    settings = merge_settings({"hyperparameters": drawn}, spec.settings)
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
    tests = {find_environment(dataset, each): None for each in (names if given is None else given)}
    places = [place for place in tests if place is not None]  # None has no position
    chosen = [{"test_environment": names[test]} for test in places]
    if spec.leave_one_domain_out:
        pairs = {
            (min(test, other), max(test, other))
            for test in places
            for other in range(len(names))
            if other != test
        }
        chosen += [
            {"test_environment": names[test], "validation_environment": names[other]}
            for test, other in sorted(pairs)
        ]
    return chosen
