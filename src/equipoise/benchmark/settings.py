"""Everything that defines a run: two runs with equal settings on equal data end with equal bits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from numbers import Real
from typing import Any

from equipoise.algorithms import get_algorithm, get_augmentation
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.selection import SELECTIONS
from equipoise.choices import check_choice

SAMPLINGS = {
    "random": "every environment's examples in random order",
    "balanced": "anchors with matches on the learned balancing score",
    "oracle": "anchors with matches on the true covariate, where it is known",
    "class-balanced": "every label as often as any other",
}
SCHEDULES = {
    "constant": "the learning rate stays, after the warm-up",
    "cosine": "it falls to zero along half a cosine",
}
ANNEAL = "penalty_anneal_iters"  # how hyperparameters end that say when a penalty sets in
PRECISIONS = {"float32": "single precision", "bf16": "mixed precision with bfloat16"}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """One run of the benchmark: data, algorithm, batches, recipe and what is kept.

    Parameters
    ----------
    dataset, data_seed, held_out : the data, and the share of each environment set aside
    algorithm, hyperparameters, featurizer : what is trained; hyperparameters by name
    sampling : "random", "balanced", "oracle" or "class-balanced"
    test_environment : left out of training, by position or by name; None trains on all
    seed : of weights, batches, augmentation and the balancer
    steps, checkpoint_every : updates in all, and between two evaluations
    augmentation, weight_average, warm_up, schedule, precision : the recipe; `weight_average` is
        the decay of a moving average of the weights, which is then what is evaluated
    anchors_per_environment, n_matches, degree_of_balancing : of balanced and oracle batches
    balancer : keywords of `CausalBalancer`
    selections : rules by which checkpoints are kept; None takes all that the data allow
    evaluate_at_most : examples of each training environment's *train* part that checkpoints
        before the last look at; held-out parts and the test environment are always complete

    >>> settings = RunSettings(dataset="ColoredMNIST", algorithm="ERM", test_environment=2)
    >>> RunSettings.from_json(settings.to_json()) == settings
    True
    """

    dataset: str
    algorithm: str
    sampling: str = "balanced"
    test_environment: int | str | None = None
    seed: int = 0
    data_seed: int = 0
    held_out: float = 0.2
    steps: int = 5001
    checkpoint_every: int = 300
    hyperparameters: Mapping[str, Any] = field(default_factory=dict)
    featurizer: str = "auto"
    augmentation: str = "none"
    weight_average: float | None = None
    warm_up: int = 0
    schedule: str = "constant"
    precision: str = "float32"
    anchors_per_environment: int | None = None
    n_matches: int | None = None
    degree_of_balancing: float = 1.0
    balancer: Mapping[str, Any] = field(default_factory=dict)
    selections: tuple[str, ...] | None = None
    evaluate_at_most: int | None = None

    def __post_init__(self) -> None:
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        get_augmentation(self.augmentation)
        self._check_numbers()
        self._check_hyperparameters()
        self._check_balancer()
        if self.selections is not None:
            object.__setattr__(self, "selections", tuple(self.selections))
            for name in self.selections:
                check_choice("selection rule", name, SELECTIONS)

    def _check_numbers(self) -> None:
        for name in ("steps", "checkpoint_every", "anchors_per_environment", "evaluate_at_most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        for name in ("seed", "data_seed", "warm_up"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        if self.weight_average is not None and not 0 <= self.weight_average < 1:
            raise ValueError(
                f"weight_average is a decay, at least 0 and below 1, got {self.weight_average}"
            )

    def _check_hyperparameters(self) -> None:
        algorithm = get_algorithm(self.algorithm)
        algorithm.choose_hyperparameters(**self.hyperparameters)
        for name, value in self.hyperparameters.items():
            default = algorithm.hyperparameters[name].small
            if isinstance(default, Real) and not isinstance(value, Real):
                raise ValueError(f"{name} of {self.algorithm} must be a number, got {value!r}")
        size = self.hyperparameters.get("batch_size", 1)
        if size < 1:
            raise ValueError(f"batch_size must be at least 1, got {size}")

    def _check_balancer(self) -> None:
        CausalBalancer().set_params(**self.balancer)
        if "n_matches" in self.balancer:
            raise ValueError("n_matches is a setting of the run, not of its balancer: set it there")

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        return {
            **asdict(self),
            "hyperparameters": dict(self.hyperparameters),
            "balancer": dict(self.balancer),
            "selections": None if self.selections is None else list(self.selections),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunSettings:
        """Settings from what `to_json` gave."""
        for name in values:
            check_choice("setting", name, [f.name for f in fields(cls)])
        return cls(**values)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that differ whenever any setting does."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
