import dataclasses
import json

import pytest

from equipoise.benchmark import RECIPES, RunSettings
from equipoise.benchmark import make_settings as from_recipe

from .tiny import make_settings


def test_settings_survive_json():
    settings = make_settings(hyperparameters={"lr": 0.1}, weight_average=0.9)
    assert RunSettings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


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
        ({"hyperparameters": {"lr": "fast"}}, "must be a number, got 'fast'"),
        ({"hyperparameters": {"batch_size": 0}}, "at least 1, got 0"),
        ({"balancer": {"max_step": 1}}, "'max_steps'"),
        ({"balancer": {"n_matches": 1}}, "setting of the run"),
        ({"selections": ("train",)}, "'train-domain'"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
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
