from dataclasses import replace

import pytest

from equipoise.benchmark.plan import Adjustment, SweepSpec, plan_sweep
from equipoise.benchmark.recipes import list_differences, name_run

from .tiny import SWEEP_SETTINGS, make_settings, write_data


@pytest.fixture
def spec(tmp_path):
    return SweepSpec(
        datasets=(str(write_data(tmp_path / "a.npz")), str(write_data(tmp_path / "b.npz"))),
        algorithms=("ERM", "IRM"),
        test_environments=("south",),
        seeds=(0, 1),
        profile="quick",
        settings=SWEEP_SETTINGS,
    )


def test_the_first_seed_of_every_cell_comes_before_the_second_of_any(spec):
    seeds = [run.settings.seed for run in plan_sweep(spec)]
    assert len(seeds) == 2 * 2 * 2 * 2
    assert seeds == sorted(seeds)


def test_workers_that_start_together_get_different_datasets(spec):
    first, second = plan_sweep(spec)[:2]
    assert first.settings.dataset != second.settings.dataset
    assert first.settings.algorithm == second.settings.algorithm


def test_every_environment_is_left_out_in_turn_unless_some_are_named(spec):
    runs = plan_sweep(replace(spec, test_environments=None))
    assert {run.settings.test_environment for run in runs} == {"north", "east", "south"}


def test_leave_one_domain_out_adds_every_pair_once(spec):
    every = replace(
        spec,
        datasets=spec.datasets[:1],
        algorithms=("ERM",),
        samplings=("random",),
        seeds=(0,),
        test_environments=None,
        leave_one_domain_out=True,
    )
    left_out = [
        {run.settings.test_environment, run.settings.validation_environment}
        for run in plan_sweep(every)
    ]
    assert len(left_out) == 3 + 3
    assert {frozenset(each - {None}) for each in left_out} == {
        *(frozenset({name}) for name in ("north", "east", "south")),
        *(frozenset(pair) for pair in (("north", "east"), ("north", "south"), ("east", "south"))),
    }


def test_the_first_draw_is_the_recipe_and_the_others_are_random_by_seed(spec):
    runs = plan_sweep(replace(spec, draws=3, datasets=spec.datasets[:1], algorithms=("ERM",)))
    rates = {}
    for run in runs:
        rates.setdefault((run.draw, run.settings.seed), run.settings.hyperparameters["lr"])
    recipe = rates[0, 0]
    assert rates[0, 1] == recipe
    drawn = [rate for (draw, _), rate in rates.items() if draw > 0]
    assert len(set(drawn)) == 4
    assert all(10**-4.5 <= rate <= 10**-2.5 for rate in drawn)
    # What has no distribution stays as the recipe has it.
    assert {run.settings.hyperparameters["optimizer"] for run in runs} == {"adamw"}


def test_an_adjustment_changes_the_runs_it_names_and_no_other(spec):
    only = Adjustment(
        only={"algorithm": "IRM", "seed": 1},
        settings={"steps": 8, "hyperparameters": {"irm_lambda": 3.0}},
    )
    for run in plan_sweep(replace(spec, adjustments=(only,))):
        meant = (run.settings.algorithm, run.settings.seed) == ("IRM", 1)
        assert run.settings.steps == (8 if meant else 12)
        assert (run.settings.hyperparameters.get("irm_lambda") == 3.0) == meant


def test_an_adjustment_of_no_run_is_a_mistake(spec):
    nothing = Adjustment(only={"seed": 7}, settings={"steps": 8})
    with pytest.raises(ValueError, match=r"no run of the sweep is meant by .*'seed': 7"):
        plan_sweep(replace(spec, adjustments=(nothing,)))


def test_the_name_of_a_run_tells_every_setting_that_decides_it():
    shape, base = (6,), make_settings()
    names = [
        name_run(each, shape)
        for each in (
            base,
            make_settings(seed=1),
            make_settings(steps=13),
            make_settings(algorithm="CORAL"),
            make_settings(sampling="balanced"),
            make_settings(test_environment="north"),
            make_settings(validation_environment="north"),
            make_settings(hyperparameters={"lr": 0.5}),
            make_settings(balancer={"max_steps": 21}),
        )
    ]
    assert len(set(names)) == len(names)


def test_a_default_spelt_out_is_the_same_run():
    shape = (6,)
    spelt = make_settings(
        hyperparameters={"lr": 1e-3}, balancer={"max_steps": 20, "n_nearest": 5, "metric": "kl"}
    )
    assert name_run(spelt, shape) == name_run(make_settings(), shape)
    assert list_differences(make_settings(), spelt, shape) == []
    other = make_settings(hyperparameters={"lr": 0.5})
    assert list_differences(make_settings(), other, shape) == ["lr was 0.001, now 0.5"]
