"""docs/algorithms.md lists where a step differs from DomainBed's: all of it, and nothing else."""

import re
from pathlib import Path

import pytest
import torch

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.algorithms.feature_matching import coral_distance
from equipoise.benchmark.domainbed import translate_hyperparameters

from .tiny import make, tiny_batches

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"

# What DomainBed sets for images of digits, beyond lr, weight_decay and batch_size.
ADVERSARIAL = {
    **{"lambda": 1.0, "weight_decay_d": 0.0, "d_steps_per_g_step": 1, "grad_penalty": 0.0},
    **{"beta1": 0.5, "mlp_width": 256, "mlp_depth": 3, "mlp_dropout": 0.0},
    **{"lr_g": 1e-3, "lr_d": 1e-3, "weight_decay_g": 0.0},
}
ANNEALED = 500
DEFAULTS = {
    **{name: {} for name in ("ERM", "SelfReg", "ARM")},
    "IRM": {"irm_lambda": 1e2, "irm_penalty_anneal_iters": ANNEALED},
    "GroupDRO": {"groupdro_eta": 1e-2},
    "Mixup": {"mixup_alpha": 0.2},
    "MLDG": {"mldg_beta": 1.0, "n_meta_test": 2},
    **{name: {"mmd_gamma": 1.0} for name in ("CORAL", "MMD", "CausIRL_CORAL", "CausIRL_MMD")},
    **dict.fromkeys(("DANN", "CDANN"), ADVERSARIAL),
    "MTL": {"mtl_ema": 0.99},
    "SagNet": {"sag_w_adv": 0.1},
    "VREx": {"vrex_lambda": 1e1, "vrex_penalty_anneal_iters": ANNEALED},
    "RSC": {"rsc_f_drop_factor": 1 / 3, "rsc_b_drop_factor": 1 / 3},
    "Fish": {"meta_lr": 0.5},
    "Fishr": {"lambda": 1000.0, "penalty_anneal_iters": 1500, "ema": 0.95},
    "ANDMask": {"tau": 1.0},
    "SANDMask": {"tau": 1.0, "k": 1e1},
}


def mldg_pairs_two_environments():
    assert len(make("MLDG")._split(2)) == 1  # DomainBed: both are for meta-testing


def mtl_predicts_without_noise():
    mtl = make("MTL", mtl_ema=1.0)
    x = tiny_batches()[0][0]
    means = [mtl.featurizer(part).mean(dim=0) for part, _ in tiny_batches()]
    mtl.update(tiny_batches())
    torch.testing.assert_close(mtl.embeddings, torch.stack(means))
    assert torch.equal(mtl.predict(x), mtl.predict(x))


def every_network_is_trained(name, part):
    algorithm = make(name)
    optimised = {id(p) for p in algorithm._parameters_of(())}
    assert all(id(p) in optimised for p in getattr(algorithm, part).parameters())


def arm_averages_over_the_batch():
    arm = make("ARM", batch_size=2)
    x = tiny_batches((4,))[0][0]
    halves = torch.cat([arm.eval().predict(x[:2]), arm.predict(x[2:])])
    assert not torch.allclose(arm.predict(x), halves)


def sandmask_can_learn_by_default():
    sandmask = make("SANDMask")
    before = sandmask.classifier.weight.clone()
    sandmask.update(tiny_batches())
    assert not torch.equal(before, sandmask.classifier.weight)


def irm_halves_are_random():
    irm = make("IRM")
    logits, labels = torch.randn(8, 3), torch.arange(8) % 3
    assert irm._penalty(logits, labels) != irm._penalty(logits, labels)


def adam_goes_on_where_the_weight_stays(name, weight, steps):
    algorithm = make(name, **{weight: 1.0, steps: 1})
    for seed in range(2):
        algorithm.update(tiny_batches(seed=seed))
    assert int(algorithm.training_state().tensors["optimizer.main.0.step"]) == 2  # DomainBed: 1


def cdann_counts_labels_that_are_there():
    losses, labels = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1])
    assert make("CDANN").average(losses, labels) == (2 + 5) / 2  # DomainBed: / 3 labels


def one_example_has_covariance_zero():
    assert torch.isfinite(coral_distance(torch.ones(1, 3), torch.zeros(4, 3)))


def names_are_translated(name, there, here):
    assert translate_hyperparameters(name, "PACS", {there: 0.5})[0] == {here: 0.5}


def it_is_not_part_of_domainbed(name):
    assert name not in DEFAULTS


DIFFERENCES = {
    "MLDG": [mldg_pairs_two_environments],
    "MTL": [mtl_predicts_without_noise],
    "ARM": [lambda: every_network_is_trained("ARM", "context"), arm_averages_over_the_batch],
    "SelfReg": [lambda: every_network_is_trained("SelfReg", "projection")],
    "SANDMask": [sandmask_can_learn_by_default],
    "IRM": [
        irm_halves_are_random,
        lambda: adam_goes_on_where_the_weight_stays(
            "IRM", "irm_lambda", "irm_penalty_anneal_iters"
        ),
    ],
    "VREx": [
        lambda: adam_goes_on_where_the_weight_stays(
            "VREx", "vrex_lambda", "vrex_penalty_anneal_iters"
        ),
    ],
    "CDANN": [
        cdann_counts_labels_that_are_there,
        lambda: names_are_translated("CDANN", "lr_g", "lr"),
    ],
    "DANN": [lambda: names_are_translated("DANN", "lambda", "dann_lambda")],
    "Fishr": [lambda: names_are_translated("Fishr", "lambda", "fishr_lambda")],
    "CORAL": [one_example_has_covariance_zero],
    "CausIRL_CORAL": [one_example_has_covariance_zero],
    **{
        name: [lambda name=name: it_is_not_part_of_domainbed(name)]
        for name in set(list_algorithms()) - set(DEFAULTS)
    },
}


def listed():
    table = PAGE.read_text().split("## Where a step differs")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| ", table, flags=re.M)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def test_the_page_lists_every_algorithm_that_differs_and_no_other():
    assert listed() == set(DIFFERENCES)


@pytest.mark.parametrize("name", sorted(DIFFERENCES))
def test_a_listed_difference_is_one(name):
    for check in DIFFERENCES[name]:
        check()


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_defaults_are_domainbeds_but_for_those_listed(name):
    common = {"lr": 1e-3, "weight_decay": 0.0, "batch_size": 64}
    theirs, _ = translate_hyperparameters(name, "ColoredMNIST", {**common, **DEFAULTS[name]})
    ours = get_algorithm(name).choose_hyperparameters()
    differing = {key for key, value in theirs.items() if ours[key] != value}
    assert differing == ({"tau"} if name == "SANDMask" else set())
    assert len(theirs) == len({**common, **DEFAULTS[name]}) - 2 * (name in ("DANN", "CDANN"))
