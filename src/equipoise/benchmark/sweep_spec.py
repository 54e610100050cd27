"""What a sweep consists of: the lists whose product are its runs, and what they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.benchmark.field_types import check_type
from equipoise.benchmark.own_modules import import_own
from equipoise.benchmark.recipes import RECIPES
from equipoise.benchmark.settings import SAMPLINGS, RunSettings
from equipoise.choices import check_choice

Environment = int | float | str

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
    datasets, algorithms, samplings : names
    test_environments : those left out in turn, by name or position; None takes every one; a
        dictionary has them for each dataset
    seeds : of weights, batches and balancer
    draws : of hyperparameters; the first is the recipe's, the others are random
    profile : the recipe
    settings : further fields of `RunSettings`, the same for all runs
    adjustments : settings of some of the runs
    leave_one_domain_out : add the runs with two environments left out which that rule needs
    imports : modules or `.py` files that register datasets or algorithms of your own

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
        for name in self.algorithms:
            check_choice("algorithm", name, list_algorithms())
        for name in self.samplings:
            check_choice("sampling", name, SAMPLINGS)
        check_choice("profile", self.profile, RECIPES)
        check_type("draws", self.draws, int)
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        for seed in self.seeds:
            check_type("a seed", seed, int)
        for name in self.settings:
            check_choice("setting", name, FIXED)
        for adjustment in self.adjustments:
            for name in adjustment.only:
                check_choice("condition", name, LISTED)
            for name in adjustment.settings:
                check_choice("setting", name, FIXED)
            if "algorithm" in adjustment.only:
                get_algorithm(adjustment.only["algorithm"])
