"""The command that trains a run again, from its settings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from equipoise.benchmark import RECIPES, RunSettings, make_settings

_OPTIONS = ("dataset", "algorithm", "sampling", "test_environment", "seed", "data_seed")
_APART = (*_OPTIONS, "featurizer", "hyperparameters", "balancer")


def write_command(settings: RunSettings, input_shape: Sequence[int], output: str) -> str:
    """`equipoise train …` that gives these very settings, by the recipe that is nearest.

    >>> settings = make_settings("quick", dataset="ColoredMNIST", algorithm="ERM", seed=3,
    ...                          test_environment="0.9", steps=200)
    >>> print(write_command(settings, (2, 28, 28), "runs/x"))
    equipoise train --dataset ColoredMNIST --algorithm ERM --sampling balanced \
--test-environment 0.9 --seed 3 --data-seed 0 --profile quick --set steps=200 --output runs/x
    """
    candidates = [_write_by(profile, settings, input_shape) for profile in RECIPES]
    words = min((found for found in candidates if found is not None), key=len)
    return shlex.join(["equipoise", "train", *words, "--output", output])


def _write_by(profile: str, settings: RunSettings, input_shape: Sequence[int]) -> list[str] | None:
    """The options over this recipe; None where it says something that the settings do not."""
    wanted = settings.to_json()
    given = {name: wanted[name] for name in _OPTIONS}
    recipe = make_settings(
        profile, input_shape=input_shape, steps=settings.steps, **given
    ).to_json()
    plain = make_settings(profile, input_shape=input_shape, **given).to_json()
    if recipe["hyperparameters"].keys() - wanted["hyperparameters"].keys():
        return None
    words = []
    for name, value in given.items():
        written = "none" if value is None else str(value)
        words += [f"--{name.replace('_', '-')}", written]
    words += ["--profile", profile]
    if wanted["featurizer"] != recipe["featurizer"]:
        words += ["--featurizer", wanted["featurizer"]]
    for name, value in wanted.items():
        if name not in _APART and value != (plain if name == "steps" else recipe)[name]:
            words += ["--set", f"{name}={_write_value(value)}"]
    for name, value in wanted["hyperparameters"].items():
        if recipe["hyperparameters"].get(name) != value:
            words += ["--set", f"{name}={_write_value(value)}"]
    for name, value in wanted["balancer"].items():
        words += ["--set", f"balancer.{name}={_write_value(value)}"]
    return words


def _write_value(value: Any) -> str:
    """As `--set` reads it: JSON, and a text bare unless it would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except json.JSONDecodeError:
        return value
    return json.dumps(value)
