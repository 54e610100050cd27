"""Everything that defines a run: two runs with equal settings on equal data end with equal bits."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

from equipoise.algorithms import get_algorithm, get_augmentation
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.selection import SELECTIONS
from equipoise.checks import MOST_SEED, check_choice, check_count, show
from equipoise.files import make_plain

WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def check_type(name: str, value: Any, declared: Any) -> None:
    """Raise a ValueError unless `value` fits the `declared` type; true is not a number.

    >>> check_type("steps", 2.5, int | None)
    Traceback (most recent call last):
    ValueError: steps must be a whole number or none, got 2.5
    """
    if not _fits(value, declared):
        raise ValueError(f"{name} must be {_describe(declared)}, got {show(value)}")


def _fits(value: Any, declared: Any) -> bool:
    origin, parts = get_origin(declared), get_args(declared)
    if declared is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(each, parts[0]) for each in value)
    if declared in (int, float) and isinstance(value, bool):
        return False
    if declared is float:
        return isinstance(value, int | float) and abs(value) < 10**300
    return isinstance(value, origin or declared)


def _describe(declared: Any) -> str:
    origin, parts = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return " or ".join(_describe(part) for part in parts)
    if declared is NoneType:
        return "none"
    if origin is tuple:
        return f"a list, each entry {_describe(parts[0])}"
    return WORDS.get(declared, "a dictionary")


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

RANGES = {  # the least and the most
    "steps": (1, 10**9),
    "checkpoint_every": (1, 10**9),
    "evaluate_at_most": (1, 10**9),
    "anchors_per_environment": (1, 10**6),
    "n_matches": (1, 10**4),
    "seed": (0, MOST_SEED),
    "data_seed": (0, MOST_SEED),
    "warm_up": (0, 10**9),
}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """One run of the benchmark: data, algorithm, batches, recipe and what is kept.

    Parameters
    ----------
    dataset : str
        A registered name or a path.
    data_seed, held_out : int, float
        Of the data, and the share of each environment set aside.
    algorithm, featurizer : str
        What is trained, and its network.
    hyperparameters : dict
        Of the algorithm, by name.
    sampling : str
        "random", "balanced", "oracle" or "class-balanced".
    test_environment : str, int or float, optional
        Left out of training, by name or else by position [default: train on all].
    validation_environment : str, int or float, optional
        A second one left out, for leave-one-domain-out validation.
    seed : int
        Of weights, batches, augmentation and the balancer.
    steps, checkpoint_every : int
        Updates in all, and between two evaluations.
    augmentation, schedule, precision : str
        Of the recipe.
    weight_average : float, optional
        Decay of a moving average of the weights, which is then what is evaluated.
    warm_up : int
        Steps in which the learning rate rises to its value.
    anchors_per_environment, n_matches : int, optional
        Of balanced and oracle batches [default: by the batch size and the labels].
    degree_of_balancing : float
        The share of anchors that are balanced.
    balancer : dict
        Keywords of `CausalBalancer`.
    balance_features : str, optional
        Path of other features of the same examples, on which the balancer is fitted.
    selections : tuple of str, optional
        Rules by which checkpoints are kept [default: all that the data allow].
    evaluate_at_most : int, optional
        Examples of each training environment's *train* part that checkpoints before the last
        look at; held-out parts and the test environment are always complete.

    Lists, dictionaries and numbers of any kind are kept as plain ones, as a JSON file has them.

    >>> settings = RunSettings(dataset="ColoredMNIST", algorithm="ERM", test_environment=2)
    >>> RunSettings.from_json(settings.to_json()) == settings
    True
    """

    dataset: str
    algorithm: str
    sampling: str = "balanced"
    test_environment: int | float | str | None = None
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
    validation_environment: int | float | str | None = None
    balance_features: str | None = None

    def __post_init__(self) -> None:
        for name, declared in get_type_hints(type(self)).items():
            value = make_plain(getattr(self, name))
            check_type(name, value, declared)
            object.__setattr__(self, name, value)
        check_choice("sampling", self.sampling, SAMPLINGS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        get_augmentation(self.augmentation)
        for name, (least, most) in RANGES.items():
            if (value := getattr(self, name)) is not None:
                check_count(name, value, least=least, most=most)
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out must be a share between 0 and 1, got {self.held_out}")
        if not 0 <= self.degree_of_balancing <= 1:
            raise ValueError(
                f"degree_of_balancing must be from 0 to 1, got {self.degree_of_balancing}"
            )
        if self.weight_average is not None and not 0 <= self.weight_average < 1:
            raise ValueError(
                f"weight_average is a decay, at least 0 and below 1, got {self.weight_average}"
            )
        get_algorithm(self.algorithm).choose_hyperparameters(**self.hyperparameters)
        declared = get_type_hints(CausalBalancer.__init__)
        for name in self.balancer:
            check_choice("parameter of CausalBalancer", name, list(CausalBalancer().get_params()))
        for name, value in self.balancer.items():
            check_type(f"balancer.{name}", value, declared[name])
        if "n_matches" in self.balancer:
            raise ValueError("n_matches is a setting of the run, not of its balancer: set it there")
        if self.selections is None:
            return
        object.__setattr__(self, "selections", tuple(self.selections))
        if not self.selections:
            raise ValueError(
                f"selections is empty; name one or more of {', '.join(SELECTIONS)}, or "
                "leave it out to take all that the data allow"
            )
        for name in self.selections:
            check_choice("selection rule", name, SELECTIONS)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON file."""
        plain: dict[str, Any] = make_plain(asdict(self))
        return plain

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Settings from what `to_json` gave."""
        for name in values:
            check_choice("setting", name, [f.name for f in fields(cls)])
        return cls(**values)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that differ whenever any setting does."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
