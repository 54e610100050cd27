"""From a recipe, a search and `name=value` to settings, and from settings to the name of a run."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from equipoise.algorithms import get_algorithm, is_large_image
from equipoise.benchmark.balancers import NOT_IN_KEY, make_balancer
from equipoise.benchmark.selection import flatten_settings
from equipoise.benchmark.settings import ANNEAL, RunSettings
from equipoise.checks import check_choice

RECIPES: dict[str, dict[str, Any]] = {
    # Small images on a CPU. What keeps a network from memorising the few digits, a quarter of
    # them with a wrong label, that carry most of a balanced batch's weight.
    "quick": {
        "steps": 400,
        "checkpoint_every": 100,
        "featurizer": "small-cnn",
        "augmentation": "affine",
        "weight_average": 0.99,
        "warm_up": 50,
        "schedule": "cosine",
        "evaluate_at_most": 2000,
        "hyperparameters": {
            "batch_size": 160,  # of each environment; balanced batches hold 160 / (a + 1) anchors
            "lr": 1e-2,
            "weight_decay": 1e-2,
            "dropout": 0.3,
            "optimizer": "adamw",
            "gce_q": 0.7,
            "gce_rise": 100,
        },
        # Half a batch estimates the slope in IRM's penalty with an error of about 0.1: at the
        # published weight of 100, the error squared outweighs the loss, and nothing is learned.
        "algorithms": {"IRM": {"irm_lambda": 1.0}},
    },
    # The protocol behind published tables.
    "domainbed": {
        "steps": 5001,
        "checkpoint_every": 100,
        "featurizer": "auto",
        "hyperparameters": {},  # all as the algorithm's class has them, by the size of the images
        "algorithms": {},
    },
}
PROTOCOL_STEPS = RECIPES["domainbed"]["steps"]


def make_settings(
    profile: str = "domainbed", *, input_shape: Sequence[int] | None = None, **settings: Any
) -> RunSettings:
    """Settings of a recipe; what is given by name comes before what the recipe says.

    A recipe for images gives vectors (`input_shape` of one side) a perceptron and no
    augmentation. "domainbed" evaluates large images every 300 steps and augments photos. In
    "quick" a penalty sets in after the same share of the run as in "domainbed".

    >>> make_settings("quick", dataset="ColoredMNIST", algorithm="ERM", steps=100).steps
    100
    """
    check_choice("profile", profile, RECIPES)
    recipe = dict(RECIPES[profile])
    if input_shape is not None and len(input_shape) == 1:
        recipe |= {"featurizer": "mlp", "augmentation": "none"}
    if profile == "domainbed" and input_shape is not None and is_large_image(input_shape):
        is_photo = input_shape[0] == 3
        recipe |= {"checkpoint_every": 300, "augmentation": "photo" if is_photo else "none"}
    chosen: Mapping[str, Any] = settings.pop("hyperparameters", None) or {}
    of_algorithm = recipe.pop("algorithms").get(settings.get("algorithm"), {})
    hyperparameters = {**recipe.pop("hyperparameters"), **of_algorithm, **chosen}
    made = RunSettings.from_json({**recipe, **settings, "hyperparameters": hyperparameters})
    if profile == "quick":
        sooner = _shorten_anneals(made)
        made = replace(made, hyperparameters={**sooner, **made.hyperparameters})
    return made


def _shorten_anneals(settings: RunSettings) -> dict[str, int]:
    """When penalties set in, as the same share of the run as in the published protocol."""
    defaults = get_algorithm(settings.algorithm).choose_hyperparameters()
    return {
        name: round(value * settings.steps / PROTOCOL_STEPS)
        for name, value in defaults.items()
        if name.endswith(ANNEAL)
    }


def draw_search(algorithm: str, draw: int, seed: int, input_shape: Sequence[int]) -> dict[str, Any]:
    """Draw number `draw` of the search of one seed; number 0 leaves everything as it is.

    Only what has a distribution is drawn; the recipe says the rest. Every seed has draws of its
    own, as in DomainBed, so that its spread includes that of the search.

    >>> sorted(draw_search("ERM", 1, 0, (2, 28, 28)))
    ['batch_size', 'lr']
    >>> draw_search("ERM", 0, 0, (2, 28, 28))
    {}
    """
    if draw == 0:
        return {}
    large = is_large_image(input_shape)
    chosen = get_algorithm(algorithm)
    own_seed = int(np.random.SeedSequence([draw, seed, 0x5EA2]).generate_state(1)[0])
    values = chosen.draw_hyperparameters(own_seed, large_images=large)
    return {
        name: values[name]
        for name, hyperparameter in chosen.hyperparameters.items()
        if hyperparameter.draw or (large and hyperparameter.draw_large)
    }


SETTINGS_NAMES = {field.name for field in fields(RunSettings)}
OWN_OPTIONS = (
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
        if name in OWN_OPTIONS:
            raise ValueError(f"{name} cannot be set by name=value; it has an option of its own")
        value = parse_value(text)
        if name.startswith("balancer."):
            found["balancer"][name.removeprefix("balancer.")] = value
        elif name in SETTINGS_NAMES:
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
    old, new = (flatten_settings(resolve_settings(each, input_shape)) for each in (before, now))
    return [
        f"{name} was {old.get(name)!r}, now {new.get(name)!r}"
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    ]
