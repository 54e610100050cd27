"""The name of a run's directory, made from its content: equal settings share one run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from equipoise.algorithms import get_algorithm, is_large_image
from equipoise.benchmark.balancer_cache import NOT_IN_KEY
from equipoise.benchmark.preparation import make_balancer
from equipoise.benchmark.settings import RunSettings


def name_run(settings: RunSettings, input_shape: Sequence[int]) -> str:
    """Dataset, algorithm and sampling to read, and sixteen digits of all that decides the run.

    Defaults count as if they had been given, so that another default is another run. What is
    None is left out: a setting that later versions add does not rename the runs of today.

    >>> settings = RunSettings(dataset="ColoredMNIST", algorithm="ERM", sampling="random")
    >>> name_run(settings, (2, 28, 28)).rsplit("-", 1)[0]
    'ColoredMNIST-ERM-random'
    """
    text = json.dumps(resolve_settings(settings, input_shape), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    dataset = "".join(c if c.isalnum() or c in "_." else "_" for c in settings.dataset)
    return f"{dataset[-40:]}-{settings.algorithm}-{settings.sampling}-{digest}"


def resolve_settings(settings: RunSettings, input_shape: Sequence[int]) -> dict[str, Any]:
    """The settings as JSON values, with every default of algorithm and balancer filled in."""
    values = {name: value for name, value in settings.to_json().items() if value is not None}
    values["hyperparameters"] = get_algorithm(settings.algorithm).choose_hyperparameters(
        large_images=is_large_image(input_shape), **settings.hyperparameters
    )
    values["balancer"] = resolve_balancer(settings)
    return values


def resolve_balancer(settings: RunSettings) -> dict[str, Any]:
    """What decides the fit of the balancer, defaults included."""
    return {
        name: value
        for name, value in make_balancer(settings).get_params().items()
        if name not in NOT_IN_KEY and value is not None
    }


def list_differences(
    before: RunSettings, now: RunSettings, input_shape: Sequence[int]
) -> list[str]:
    """In words, which settings decide two runs differently; a default spelt out does not.

    >>> one = RunSettings(dataset="ColoredMNIST", algorithm="ERM")
    >>> two = RunSettings(dataset="ColoredMNIST", algorithm="ERM", hyperparameters={"lr": 0.001})
    >>> list_differences(one, two, (2, 28, 28))
    []
    """
    old, new = (_flatten(resolve_settings(each, input_shape)) for each in (before, now))
    return [
        f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]


def _flatten(values: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if name == "balancer":
            flat |= {f"{name}.{inner}": content for inner, content in value.items()}
        elif name == "hyperparameters":
            flat |= value
        else:
            flat[name] = value
    return flat
