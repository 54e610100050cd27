import numpy as np
import pytest

from equipoise.algorithms import (
    Hyperparameter,
    choice,
    get_algorithm,
    list_algorithms,
    log_uniform,
    uniform,
)


def draws(draw, n=2000):
    rng = np.random.default_rng(0)
    return np.array([draw(rng) for _ in range(n)])


def test_distributions_stay_in_their_range_and_fill_it():
    flat = draws(uniform(0.5, 1.0))
    assert flat.min() >= 0.5
    assert flat.max() <= 1.0
    np.testing.assert_allclose(flat.mean(), 0.75, atol=0.02)
    powers = np.log10(draws(log_uniform(-1, 5)))
    assert powers.min() >= -1
    assert powers.max() <= 5
    np.testing.assert_allclose(powers.mean(), 2.0, atol=0.15)
    widths = draws(log_uniform(3, 9, base=2, integer=True))
    assert widths.dtype == np.int64
    assert widths.min() >= 8
    assert widths.max() < 512
    assert set(draws(choice(3, 4, 5)).tolist()) == {3, 4, 5}


def test_large_images_have_their_own_default_and_distribution():
    lr = Hyperparameter(
        1e-3, large=5e-5, draw=log_uniform(-4.5, -2.5), draw_large=log_uniform(-5, -3.5)
    )
    assert lr.default() == 1e-3
    assert lr.default(large_images=True) == 5e-5
    rng = np.random.default_rng(0)
    assert max(lr.sample(rng, large_images=True) for _ in range(500)) < 10**-3.5
    assert max(lr.sample(rng) for _ in range(500)) > 10**-3


def test_the_defaults_are_those_of_the_benchmark():
    def defaults(name, large_images=False):
        return get_algorithm(name).choose_hyperparameters(large_images=large_images)

    small, large = defaults("ERM"), defaults("ERM", large_images=True)
    assert (small["lr"], small["weight_decay"], small["batch_size"]) == (1e-3, 0.0, 64)
    assert (large["lr"], large["weight_decay"], large["batch_size"]) == (5e-5, 0.0, 32)
    assert defaults("ARM", large_images=True)["batch_size"] == 8
    for name, expected in {
        "IRM": {"irm_lambda": 100.0, "irm_penalty_anneal_iters": 500},
        "GroupDRO": {"groupdro_eta": 0.01},
        "Mixup": {"mixup_alpha": 0.2},
        "MLDG": {"mldg_beta": 1.0, "n_meta_test": 2},
        "CORAL": {"mmd_gamma": 1.0},
        "CausIRL_MMD": {"mmd_gamma": 1.0},
        "DANN": {"dann_lambda": 1.0, "grad_penalty": 0.0, "mlp_width": 256, "mlp_depth": 3},
        "MTL": {"mtl_ema": 0.99},
        "SagNet": {"sag_w_adv": 0.1},
        "VREx": {"vrex_lambda": 10.0, "vrex_penalty_anneal_iters": 500},
        "RSC": {"rsc_f_drop_factor": 1 / 3, "rsc_b_drop_factor": 1 / 3},
        "Fish": {"meta_lr": 0.5},
        "Fishr": {"fishr_lambda": 1000.0, "penalty_anneal_iters": 1500, "ema": 0.95},
        "ANDMask": {"tau": 1.0},
        "SANDMask": {"k": 10.0},
    }.items():
        assert defaults(name).items() >= expected.items(), name


@pytest.mark.parametrize(
    ("algorithm", "name", "value", "expected"),
    [
        ("MLDG", "n_meta_test", 0, "a whole number at least 1"),
        ("DANN", "mlp_depth", 2.5, "a whole number at least 2"),
        ("DANN", "mlp_depth", 1, "a whole number at least 2"),
        ("RSC", "rsc_f_drop_factor", 1.5, "at least 0 and at most 1"),
        ("RSC", "rsc_b_drop_factor", -0.1, "at least 0 and at most 1"),
        ("Mixup", "mixup_alpha", 0, "a number above 0"),
        ("IRM", "irm_penalty_anneal_iters", 10.5, "a whole number at least 0"),
        ("VREx", "vrex_penalty_anneal_iters", -1, "a whole number at least 0"),
        ("Fishr", "penalty_anneal_iters", 0.3, "a whole number at least 0"),
        ("Fishr", "ema", 1.0, "at least 0 and below 1"),
        ("ERM", "batch_size", 0, "a whole number at least 1"),
        ("ERM", "beta1", 1.0, "at least 0 and below 1"),
        ("ERM", "lr", "fast", "a number"),
        ("ERM", "lr", float("nan"), "a number"),
        ("ERM", "lr", True, "a number"),
        ("ERM", "dropout", 2, "at least 0 and at most 1"),
        ("ERM", "optimizer", 3, "a text"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_those_that_do(
    algorithm, name, value, expected
):
    message = f"{name} of {algorithm} must be .*{expected}.*, got {value!r}"
    with pytest.raises(ValueError, match=message):
        get_algorithm(algorithm)((6,), 3, 2, **{name: value})


@pytest.mark.parametrize("name", list_algorithms())
@pytest.mark.parametrize("large_images", [False, True])
def test_defaults_and_draws_are_allowed_values(name, large_images):
    algorithm = get_algorithm(name)
    defaults = algorithm.choose_hyperparameters(large_images=large_images)
    algorithm.choose_hyperparameters(**defaults)
    for seed in range(30):
        algorithm.choose_hyperparameters(
            **algorithm.draw_hyperparameters(seed, large_images=large_images)
        )


def test_one_more_hyperparameter_does_not_change_what_the_others_draw():
    erm, irm = (get_algorithm(name).draw_hyperparameters(3) for name in ("ERM", "IRM"))
    assert {name: irm[name] for name in erm} == erm
