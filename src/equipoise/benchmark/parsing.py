"""`name=value` as written on a command line -> settings and hyperparameters."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from equipoise.benchmark.settings import RunSettings

_SETTINGS = {field.name for field in fields(RunSettings)}
_OPTIONS = (
    *("dataset", "algorithm", "sampling", "test_environment", "seed", "data_seed"),
    *("featurizer", "hyperparameters", "balancer"),
)


def parse_choices(choices: Sequence[str]) -> dict[str, Any]:
    """Sort `name=value` texts: a setting of the run, `balancer.name`, else a hyperparameter.

    >>> parse_choices(["lr=1e-2", "warm_up=50", "balancer.max_steps=300"])
    {'hyperparameters': {'lr': 0.01}, 'balancer': {'max_steps': 300}, 'warm_up': 50}
    """
    found: dict[str, Any] = {"hyperparameters": {}, "balancer": {}}
    for choice in choices:
        name, equals, text = choice.partition("=")
        if not equals or not name:
            raise ValueError(f"expected name=value, got {choice!r}")
        if name in _OPTIONS:
            raise ValueError(f"{name} cannot be set by name=value; it has an option of its own")
        value = parse_value(text)
        if name.startswith("balancer."):
            found["balancer"][name.removeprefix("balancer.")] = value
        elif name in _SETTINGS:
            found[name] = value
        else:
            found["hyperparameters"][name] = value
    return found


def parse_value(text: str) -> Any:
    """A number, true, false, null or a list as in JSON; anything else is a text.

    Whole numbers with commas between them are a list without its brackets.

    >>> parse_value("[64, 64]"), parse_value("64,64"), parse_value("(64,)"), parse_value("adamw")
    ([64, 64], [64, 64], [64], 'adamw')
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        inside = text[1:-1] if text.startswith("(") and text.endswith(")") else text
        if re.fullmatch(r"\s*\d+\s*(,\s*\d+\s*)*,?\s*", inside):
            return [int(number) for number in inside.split(",") if number.strip()]
        return text
