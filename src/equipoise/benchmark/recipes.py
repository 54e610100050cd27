"""Recipes: how long, how fast and with what regularisation to train, whatever the sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from equipoise.algorithms import get_algorithm, is_large_image
from equipoise.benchmark.settings import ANNEAL, RunSettings
from equipoise.choices import check_choice

RECIPES: dict[str, dict[str, Any]] = {
    # Small images on a CPU. What keeps a network from memorising the few digits, a quarter of
    # them with a wrong label, that carry most of a balanced batch's weight.
    "quick": {
        "steps": 600,
        "checkpoint_every": 50,
        "featurizer": "small-cnn",
        "augmentation": "affine",
        "weight_average": 0.99,
        "warm_up": 50,
        "schedule": "cosine",
        "evaluate_at_most": 2000,
        "hyperparameters": {
            "batch_size": 160,  # of each environment; balanced batches hold 160 / (a + 1) anchors
            "lr": 5e-3,
            "weight_decay": 1e-2,
            "dropout": 0.3,
            "optimizer": "adamw",
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
