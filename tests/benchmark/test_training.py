import math
import warnings

import numpy as np
import pytest
import torch

from equipoise.benchmark import split_for_run, train
from equipoise.benchmark.balancers import fit_balancer, make_balancer
from equipoise.benchmark.training import Diverged, Training, build_algorithm, lr_factor
from equipoise.data import Examples

from .tiny import make_data, make_settings


def make_training(settings, dataset=None, **options):
    data = split_for_run(settings, dataset or make_data())
    return Training(settings, data, build_algorithm(settings, data), **options)


def test_checkpoints_come_every_so_often_and_at_the_end():
    result = train(make_settings(steps=10), make_data())
    assert [record.step for record in result.records] == [4, 8, 10]


def test_a_run_is_its_settings():
    settings = make_settings(weight_average=0.9, hyperparameters={"dropout": 0.5})
    assert train(settings, make_data()) == train(settings, make_data())


def test_training_learns_and_says_where():
    settings = make_settings(steps=120, checkpoint_every=60, hyperparameters={"lr": 1e-2})
    result = train(settings, make_data())
    last = result.records[-1]
    assert last.loss < result.records[0].loss
    assert last.validation_accuracy == np.mean(
        [last.held_out_accuracy[name] for name in ("east", "north")]
    )
    assert last.ood_accuracy == last.train_accuracy["south"]
    assert last.ood_held_out_accuracy == last.held_out_accuracy["south"]


def test_balanced_batches_resist_what_misleads_random_ones():
    changes = {"steps": 60, "checkpoint_every": 60, "hyperparameters": {"lr": 1e-2}}
    ood = {
        sampling: train(make_settings(sampling=sampling, **changes), make_data()).records[-1]
        for sampling in ("random", "oracle")
    }
    assert ood["oracle"].ood_accuracy > ood["random"].ood_accuracy + 0.1


def test_runs_share_a_balancer_that_is_given():
    dataset, settings = make_data(), make_settings(sampling="balanced", selections=None)
    balancer = fit_balancer(settings, split_for_run(settings, dataset))
    given = train(settings, dataset, balancer=balancer)
    assert given == train(settings, dataset)
    assert list(given.selected) == ["train-domain", "balanced", "test-domain"]
    assert given.records[-1].balanced_validation_accuracy is not None


def test_the_device_of_the_run_is_that_of_its_balancer(monkeypatch):
    used = []
    monkeypatch.setattr("equipoise.benchmark.training.choose_device", lambda name: f"{name}!")

    def fit(settings, data, *, device, verbose):
        used.append(device)
        raise StopIteration

    monkeypatch.setattr("equipoise.benchmark.training.fit_balancer", fit)
    with pytest.raises(StopIteration):
        train(make_settings(sampling="balanced"), make_data(), device="auto")
    assert used == ["auto!"]
    assert make_balancer(make_settings(), device="meta").device == "meta"
    assert make_balancer(make_settings(balancer={"device": "cpu"}), device="meta").device == "cpu"


def test_auto_is_a_device_of_the_loop_as_well():
    assert train(make_settings(), make_data(), device="auto").records


def test_a_label_that_only_the_test_environment_has_is_no_obstacle_to_a_balanced_run():
    dataset = make_data()
    rows = np.flatnonzero((dataset.labels != 0) | (dataset.environments == 2))
    settings = make_settings(sampling="balanced", selections=None)
    last = train(settings, dataset.subset(rows)).records[-1]
    assert last.balanced_validation_accuracy > 0


def test_rules_that_the_data_do_not_allow_are_left_out():
    dataset = make_data()
    settings = make_settings(selections=None, test_environment=None)
    assert list(train(settings, dataset).selected) == ["train-domain", "balanced"]
    one = dataset.subset(np.flatnonzero(dataset.environments != 1))
    one.environments = (one.environments > 0).astype(np.int64)
    one.environment_names = ("east", "south")
    assert list(train(make_settings(selections=None), one).selected) == [
        "train-domain",
        "test-domain",
    ]


@pytest.mark.parametrize("stop", [3, 4, 7])
@pytest.mark.parametrize("sampling", ["random", "oracle"])
def test_a_training_resumed_after_any_update_ends_with_the_same_bits(stop, sampling):
    settings = make_settings(
        sampling=sampling,
        weight_average=0.9,
        schedule="cosine",
        warm_up=3,
        hyperparameters={"dropout": 0.5},
    )
    whole = make_training(settings)
    for _ in whole.run():
        pass
    part, resumed = make_training(settings), make_training(settings)
    for n_steps in part.run():
        if n_steps == stop:
            break
    resumed.load_training_state(part.training_state())
    for _ in resumed.run():
        pass
    assert resumed.records == whole.records
    for name, value in whole.weights().items():
        assert torch.equal(resumed.weights()[name], value), name


def test_the_averaged_weights_are_what_is_evaluated_and_kept():
    training = make_training(make_settings(weight_average=0.5))
    for _ in training.run():
        pass
    weights = training.weights()
    assert all(torch.equal(weights[k], v) for k, v in training.average.average.items())
    training.algorithm.load_state_dict(weights)
    again = training.evaluator.evaluate(training.algorithm)
    assert again.train == tuple(training.records[-1].train_accuracy.values())


def test_augmentation_is_the_same_for_a_step_however_it_is_reached():
    rng = np.random.default_rng(0)
    images = Examples(
        rng.random((90, 1, 8, 8), dtype=np.float32), np.arange(90) % 2, np.arange(90) // 2 % 3
    )
    settings = make_settings(featurizer="small-cnn", augmentation="affine", test_environment=2)
    whole, part = make_training(settings, images), make_training(settings, images)
    for _ in whole.run():
        pass
    for n_steps in part.run():
        if n_steps == 5:
            break
    resumed = make_training(settings, images)
    resumed.load_training_state(part.training_state())
    for _ in resumed.run():
        pass
    assert resumed.records == whole.records


def test_the_learning_rate_warms_up_and_falls_along_a_cosine():
    settings = make_settings(steps=100, warm_up=10, schedule="cosine")
    factors = [lr_factor(settings, step) for step in range(100)]
    assert math.isclose(factors[4], 0.5 * 0.5 * (1 + math.cos(math.pi * 0.04)))
    assert factors[9] == max(factors)
    assert factors[50] == pytest.approx(0.5)
    assert factors[99] < 0.001


def test_a_loss_that_is_no_number_ends_the_run_with_advice():
    settings = make_settings(hyperparameters={"lr": 1e30})
    with pytest.raises(Diverged, match=r"ERM is (nan|inf) at step \d+\. Lower lr \(now 1e\+30\)"):
        train(settings, make_data())


def test_weights_that_are_no_numbers_are_never_kept():
    training = make_training(make_settings())
    steps = training.run()
    for _ in range(3):
        next(steps)
    training.algorithm.classifier.bias.data[0] = float("nan")
    training._check_losses = lambda losses: None  # as if the loss had not shown it yet
    with pytest.raises(Diverged, match="a weight of ERM is not finite at step 4"):
        next(steps)
    assert training.records == []


def test_an_algorithm_that_compares_environments_refuses_one():
    dataset = make_data()
    two = dataset.subset(np.flatnonzero(dataset.environments > 0))
    two.environments, two.environment_names = two.environments - 1, ("north", "south")
    settings = make_settings(algorithm="CORAL")
    with pytest.raises(ValueError, match=r"CORAL .* needs at least 2 to train on, got 1"):
        train(settings, two)
    assert train(make_settings(), two).records


def test_mixed_precision_trains():
    settings = make_settings(precision="bf16", steps=60, checkpoint_every=20)
    records = train(settings, make_data()).records
    assert records[-1].loss < records[0].loss


def test_a_network_of_the_users_own_is_trained_as_a_copy():
    module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh())
    before = module[0].weight.detach().clone()
    settings = make_settings(steps=60, checkpoint_every=30, hyperparameters={"lr": 1e-2})
    first = train(settings, make_data(), featurizer=module)
    assert first.records[-1].loss < first.records[0].loss
    assert torch.equal(before, module[0].weight)
    assert train(settings, make_data(), featurizer=module) == first


def test_a_penalty_that_never_sets_in_is_warned_of():
    with pytest.warns(UserWarning, match="irm_penalty_anneal_iters is 500, but the run has 12"):
        make_training(make_settings(algorithm="IRM"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_training(
            make_settings(algorithm="IRM", hyperparameters={"irm_penalty_anneal_iters": 11})
        )


@pytest.mark.parametrize("sampling", ["random", "balanced", "oracle", "class-balanced"])
def test_what_is_held_out_changes_no_bit_of_the_trained_weights(sampling):
    settings = make_settings(sampling=sampling, weight_average=0.9)
    dataset, changed = make_data(), make_data()
    data = split_for_run(settings, dataset)
    unseen = np.setdiff1d(np.arange(len(dataset)), data.train.indices)
    changed.source.x[unseen] = 1e6
    changed.labels[unseen] = 0
    changed.covariate[unseen] = 0
    ended = []
    for each in (dataset, changed):
        balancer = fit_balancer(settings, split_for_run(settings, each))
        training = make_training(settings, each, balancer=balancer)
        for _ in training.run():
            pass
        ended.append(training.weights())
    assert all(torch.equal(ended[0][name], ended[1][name]) for name in ended[0])


@pytest.mark.parametrize("algorithm", ["ERM", "GroupDRO", "CORAL", "DANN", "Fishr", "MTL", "PI"])
def test_an_environment_without_a_match_is_left_out_of_steps_and_the_others_train(algorithm):
    """In the west every label has a covariate of its own: nothing there can be matched."""
    data = make_data()
    west = np.arange(len(data)) % 5 == 0
    names = np.where(west, "west", np.array(data.environment_names)[data.environments])
    covariate = np.where(west, 3 + data.labels, data.covariate)
    x = data.fetch(np.arange(len(data))).numpy()
    wider = Examples(x, data.labels, names, covariate=covariate)
    settings = make_settings(algorithm=algorithm, sampling="oracle")
    with pytest.warns(UserWarning, match="left out of balanced batches"):
        result = train(settings, wider)
    assert [record.step for record in result.records] == [4, 8, 12]
    assert set(result.records[0].held_out_accuracy) == {"east", "north", "south", "west"}
