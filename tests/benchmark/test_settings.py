import dataclasses
import json

import numpy as np
import pytest

from equipoise.benchmark import RECIPES, RunSettings
from equipoise.benchmark import make_settings as from_recipe
from equipoise.benchmark.settings import check_type

from .tiny import make_settings

INTS = tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "declared"),
    [(3, int), (3, float), (0.5, float), (None, int | None), ([1, 2], INTS | None), (False, bool)],
)
def test_a_value_of_the_declared_type_passes(value, declared):
    check_type("it", value, declared)


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (True, int, "a whole number"),
        (True, float, "a number"),
        (3.0, int | None, "a whole number or none"),
        (float("inf"), float, "a number"),
        ([1, 2.5], INTS, "a list, each entry a whole number"),
        (1, bool, "true or false"),
        (None, str, "a text"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(value, declared, expected):
    with pytest.raises(ValueError, match=f"^it must be {expected}, got"):
        check_type("it", value, declared)


def test_settings_survive_json():
    settings = make_settings(hyperparameters={"lr": 0.1}, weight_average=0.9)
    assert RunSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_tuples_and_numbers_of_other_libraries_survive_json():
    settings = make_settings(
        seed=np.int64(3),
        held_out=np.float64(0.25),
        test_environment=np.int64(1),
        hyperparameters={"lr": np.float32(0.5), "batch_size": np.int64(8)},
        balancer={"hidden": (8, 8), "max_steps": np.int32(20)},
        selections=["train-domain"],
    )
    again = RunSettings.from_json(json.loads(json.dumps(settings.to_json())))
    assert again == settings
    assert again.digest == settings.digest
    assert type(settings.seed) is int
    assert settings.balancer == {"hidden": [8, 8], "max_steps": 20}


def test_equal_settings_have_equal_digests_and_others_another():
    settings = make_settings()
    assert settings.digest == make_settings().digest
    assert settings.digest != dataclasses.replace(settings, seed=1).digest


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm": "CORALL"}, "'CORAL'"),
        ({"sampling": "balance"}, "'balanced'"),
        ({"schedule": "cosin"}, "'cosine'"),
        ({"precision": "fp16"}, "unknown precision"),
        ({"augmentation": "afine"}, "'affine'"),
        ({"hyperparameters": {"learning_rate": 1.0}}, "hyperparameter of ERM 'learning_rate'"),
        ({"hyperparameters": {"lr": "fast"}}, "must be a number at least 0, got 'fast'"),
        ({"hyperparameters": {"batch_size": 0}}, "at least 1, got 0"),
        ({"balancer": {"max_step": 1}}, "'max_steps'"),
        ({"balancer": {"n_matches": 1}}, "setting of the run"),
        ({"selections": ("train",)}, "'train-domain'"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
        ({"steps": "many"}, "steps must be a whole number, got 'many'"),
        ({"steps": True}, "steps must be a whole number, got True"),
        ({"steps": None}, "steps must be a whole number, got None"),
        ({"warm_up": "x"}, "warm_up must be a whole number, got 'x'"),
        ({"n_matches": 0}, "n_matches must be at least 1"),
        ({"n_matches": 1.5}, "n_matches must be a whole number or none"),
        ({"degree_of_balancing": 1.1}, "from 0 to 1, got 1.1"),
        ({"degree_of_balancing": float("nan")}, "must be a number, got nan"),
        ({"held_out": 1.0}, "held_out must be a share"),
        ({"held_out": "half"}, "held_out must be a number"),
        ({"weight_average": "much"}, "weight_average must be a number or none"),
        ({"test_environment": True}, "test_environment must be"),
        ({"algorithm": 3}, "algorithm must be a text, got 3"),
        ({"hyperparameters": [1]}, "hyperparameters must be a dictionary"),
        ({"hyperparameters": {"batch_size": 8.5}}, "whole number at least 1, got 8.5"),
        ({"balancer": {"max_steps": "abc"}}, "balancer.max_steps must be a whole number"),
        ({"balancer": {"hidden": "8"}}, "balancer.hidden must be a whole number or a list"),
        ({"balancer": {"caliper": [1]}}, "balancer.caliper must be a number or a text or none"),
        ({"selections": ()}, "selections is empty"),
        ({"selections": "balanced"}, "selections must be a list"),
        ({"weight_average": 1.0}, "below 1, got 1.0"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_right_one(changes, message):
    with pytest.raises(ValueError, match=message):
        make_settings(**changes)


def test_an_unknown_setting_in_a_file_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'steps'"):
        RunSettings.from_json({"dataset": "tiny", "algorithm": "ERM", "step": 3})


@pytest.mark.parametrize("profile", RECIPES)
def test_what_is_given_comes_before_the_recipe(profile):
    chosen = from_recipe(
        profile, dataset="tiny", algorithm="ERM", steps=7, hyperparameters={"lr": 0.5}
    )
    recipe = RECIPES[profile]["hyperparameters"]
    assert chosen.steps == 7
    assert chosen.hyperparameters == {**recipe, "lr": 0.5}


def test_a_recipe_for_images_suits_vectors():
    chosen = from_recipe("quick", input_shape=(5,), dataset="tiny", algorithm="ERM")
    assert (chosen.featurizer, chosen.augmentation) == ("mlp", "none")


def test_the_protocol_for_large_images_is_the_one_behind_published_tables():
    small, large, five = (
        from_recipe("domainbed", input_shape=shape, dataset="tiny", algorithm="ERM")
        for shape in ((3, 28, 28), (3, 224, 224), (5, 224, 224))
    )
    assert (small.checkpoint_every, small.augmentation) == (100, "none")
    assert (large.checkpoint_every, large.augmentation) == (300, "photo")
    assert (five.checkpoint_every, five.augmentation) == (300, "none")  # colours need RGB
    assert small.hyperparameters == large.hyperparameters == {}


@pytest.mark.parametrize(
    ("algorithm", "name", "at_800"),
    [
        ("IRM", "irm_penalty_anneal_iters", 80),
        ("VREx", "vrex_penalty_anneal_iters", 80),
        ("Fishr", "penalty_anneal_iters", 240),
    ],
)
def test_penalties_of_a_short_run_set_in_after_the_protocol_s_share(algorithm, name, at_800):
    def anneal(profile, **changes):
        made = from_recipe(profile, dataset="tiny", algorithm=algorithm, **changes)
        return made.hyperparameters.get(name)

    assert anneal("quick", steps=800) == at_800
    assert anneal("quick", steps=5001) == 10 * at_800 * 5 // 8
    assert anneal("quick", steps=800, hyperparameters={name: 7}) == 7
    assert anneal("domainbed", steps=800) is None


def test_an_unknown_profile_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'quick'"):
        from_recipe("quik", dataset="tiny", algorithm="ERM")
