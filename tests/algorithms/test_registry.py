from __future__ import annotations

import importlib
import sys
from importlib.metadata import EntryPoint
from textwrap import dedent

import numpy as np
import pytest
import torch

from equipoise.algorithms import (
    ERM,
    Algorithm,
    Hyperparameter,
    choice,
    get_algorithm,
    list_algorithms,
    log_uniform,
    registry,
    uniform,
)

from .tiny import tiny_batches, tiny_net

THE_27 = {
    *("ERM", "IRM", "GroupDRO", "Mixup", "MLDG", "CORAL", "MMD", "DANN", "CDANN", "MTL", "SagNet"),
    *("ARM", "VREx", "RSC", "Fish", "Fishr", "ANDMask", "SANDMask", "SelfReg", "CausIRL_CORAL"),
    *("CausIRL_MMD", "PI", "JTT", "LfF", "EIIL", "DFR", "AFR"),
}

OWN_PACKAGE = dedent(
    """
    import torch
    from torch.nn.functional import cross_entropy
    from equipoise.algorithms import Algorithm, Hyperparameter, uniform

    class LabelSmoothing(Algorithm):
        hyperparameters = {"smoothing": Hyperparameter(0.1, draw=uniform(0, 0.3))}

        def objective(self, batches):
            features, labels = self.encode(batches)
            logits = self.classifier(torch.cat(features))
            smoothing = self.settings["smoothing"]
            loss = cross_entropy(logits, torch.cat(labels), label_smoothing=smoothing)
            return loss, {"loss": loss}
    """
)


@pytest.fixture
def clean_registry(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.fixture
def own_package(tmp_path, monkeypatch, clean_registry):
    (tmp_path / "my_algorithms.py").write_text(OWN_PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_algorithms"
    sys.modules.pop("my_algorithms", None)


def test_all_27_algorithms_are_there_under_their_names_and_no_mere_base():
    assert {
        name
        for name in list_algorithms()
        if get_algorithm(name).__module__.startswith("equipoise.")
    } == THE_27
    assert len(THE_27) == 27
    for name in THE_27:
        assert get_algorithm(name).__name__ == name


@pytest.mark.parametrize(("typo", "meant"), [("Coral", "CORAL"), ("GroupDR0", "GroupDRO")])
def test_an_unknown_name_is_answered_with_the_nearest_and_all_known(typo, meant):
    with pytest.raises(ValueError, match=f"Did you mean '{meant}'") as error:
        get_algorithm(typo)
    assert "SANDMask" in str(error.value)


def test_an_algorithm_of_an_own_package_is_known_once_imported_and_trains(own_package):
    with pytest.raises(ValueError, match="unknown algorithm 'LabelSmoothing'"):
        get_algorithm("LabelSmoothing")
    importlib.import_module(own_package)
    own = get_algorithm("LabelSmoothing")((6,), 3, 2, featurizer=tiny_net, smoothing=0.2, lr=1e-2)
    assert "LabelSmoothing" in list_algorithms()
    assert own.settings["smoothing"] == 0.2
    assert set(own.settings) == {*ERM.hyperparameters, "smoothing"}
    losses = [own.update(tiny_batches((24, 16)))["loss"] for _ in range(60)]
    assert losses[-1] < 0.8 * losses[0]


def test_a_reloaded_module_replaces_its_own_class(own_package):
    module = importlib.import_module(own_package)
    first = get_algorithm("LabelSmoothing")
    importlib.reload(module)
    assert get_algorithm("LabelSmoothing") is not first


def test_an_installed_package_is_found_by_its_entry_point(own_package, monkeypatch):
    entry_point = EntryPoint("mine", own_package, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry_point])
    assert get_algorithm("LabelSmoothing").__module__ == own_package


def test_a_second_class_of_the_same_name_is_refused(clean_registry):
    with pytest.raises(ValueError, match=r"already registered by equipoise.algorithms.risks.IRM"):
        type("IRM", (ERM,), {"__module__": "elsewhere"})


def test_an_abstract_base_is_not_registered_but_its_children_inherit(clean_registry):
    class Halved(Algorithm, abstract=True):
        min_environments = 2

        def objective(self, batches):
            features, labels = self.encode(batches)
            logits = self.classifier(torch.cat(features))
            loss = torch.nn.functional.cross_entropy(logits, torch.cat(labels)) / 2
            return loss, {"loss": loss}

    class HalvedERM(Halved):
        pass

    assert "HalvedERM" in list_algorithms()
    assert "Halved" not in list_algorithms()
    halved = HalvedERM((6,), 3, 2, featurizer=tiny_net).update(tiny_batches())["loss"]
    whole = ERM((6,), 3, 2, featurizer=tiny_net).update(tiny_batches())["loss"]
    assert halved == pytest.approx(whole / 2)


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
