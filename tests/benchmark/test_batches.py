from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from equipoise.algorithms.risks import ERM
from equipoise.benchmark import RECIPES, split_for_run, train
from equipoise.benchmark import make_settings as from_recipe
from equipoise.benchmark.balancers import fit_balancer
from equipoise.benchmark.batches import (
    ClassBalancedBatches,
    RandomBatches,
    count_anchors,
    make_batches,
)
from equipoise.benchmark.settings import SAMPLINGS
from equipoise.data import as_environments

from .tiny import make_data, make_settings

WHOLE = [name for name in SAMPLINGS if name != "oracle"]  # there an anchor may lack matches


@pytest.fixture(scope="module")
def data():
    return split_for_run(make_settings(), make_data())


@pytest.fixture(scope="module")
def balancer(data):
    return fit_balancer(make_settings(), data)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_any_step_can_be_drawn_without_those_before_it(sampling, data, balancer):
    settings = make_settings(sampling=sampling)
    in_turn = make_batches(settings, data, balancer=balancer)
    drawn = [in_turn.draw_step(step) for step in range(90)]
    for step in (89, 3, 40, 41):
        fresh = make_batches(settings, data, balancer=balancer)
        for one, other in zip(fresh.draw_step(step), drawn[step], strict=True):
            assert np.array_equal(one, other)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_a_batch_holds_each_training_environment_apart(sampling, data, balancer):
    batches = make_batches(make_settings(sampling=sampling), data, balancer=balancer)
    for step in range(30):
        parts = batches.draw_step(step)
        assert [set(data.train.environments[part]) for part in parts] == [{0}, {1}]


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_two_ranks_together_see_the_batch_of_one_process(sampling, data, balancer):
    settings = make_settings(sampling=sampling)
    alone = make_batches(settings, data, balancer=balancer)
    ranks = [
        make_batches(settings, data, balancer=balancer, num_replicas=2, rank=r) for r in (0, 1)
    ]
    for step in range(30):
        shares = zip(*(rank.draw_step(step) for rank in ranks), strict=True)
        for whole, (first, second) in zip(alone.draw_step(step), shares, strict=True):
            assert sorted(whole) == sorted([*first, *second])


def test_random_batches_show_every_example_once_before_any_twice():
    environments = np.array([0] * 10 + [1] * 7)
    batches = RandomBatches(environments, 5, seed=0)
    seen = np.concatenate([batches.draw_step(step)[1] for step in range(7)])  # five times round
    for start in range(0, 35, 7):
        assert sorted(seen[start : start + 7]) == list(range(10, 17))


def test_a_batch_larger_than_an_environment_goes_round_it():
    batches = RandomBatches(np.array([0, 0, 0]), 7, seed=0)
    assert np.bincount(batches.draw_step(0)[0]).tolist() in ([3, 2, 2], [2, 3, 2], [2, 2, 3])


def test_class_balanced_batches_show_every_label_alike():
    labels = np.array([0] * 96 + [1] * 4)
    batches = ClassBalancedBatches(labels, np.zeros(100, dtype=np.int64), 50, seed=0)
    drawn = np.concatenate([batches.draw_step(step)[0] for step in range(40)])
    assert abs(labels[drawn].mean() - 0.5) < 0.05
    assert set(drawn[labels[drawn] == 1]) == {96, 97, 98, 99}


def test_random_and_balanced_batches_are_of_one_size(data, balancer):
    sizes = {
        sampling: [len(part) for part in _draw(make_settings(sampling=sampling), data, balancer)]
        for sampling in SAMPLINGS
    }
    assert sizes["random"] == [8 * 3, 8 * 3]
    assert sizes["random"] == sizes["class-balanced"] == sizes["balanced"]


def test_a_batch_size_that_is_given_counts(data, balancer):
    for sampling in WHOLE:
        settings = make_settings(
            sampling=sampling, hyperparameters={"batch_size": 30}, anchors_per_environment=None
        )
        assert [len(part) for part in _draw(settings, data, balancer)] == [30, 30]


@pytest.mark.parametrize("profile", RECIPES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"anchors_per_environment": 5},
        {"n_matches": 1},
        {"hyperparameters": {"batch_size": 32}},
        {"hyperparameters": {"batch_size": 2}},
        {"hyperparameters": {"batch_size": 32}, "anchors_per_environment": 7},
    ],
)
def test_batches_of_every_sampling_are_of_one_size_in_every_profile(
    profile, changes, data, balancer
):
    sizes = set()
    for sampling in WHOLE:
        settings = from_recipe(
            profile,
            input_shape=(6,),
            dataset="tiny",
            algorithm="ERM",
            sampling=sampling,
            test_environment="south",
            **changes,
        )
        a = changes.get("n_matches", 2)
        expected = count_anchors(settings, 3, (6,)) * (a + 1)
        sizes |= {len(part) for part in _draw(settings, data, balancer)} | {expected}
    assert len(sizes) == 1


@pytest.mark.parametrize(
    ("algorithm", "shape", "size"),
    [
        ("ERM", (3, 28, 28), 64),
        ("ERM", (3, 224, 224), 32),
        ("ARM", (3, 28, 28), 64),
        ("ARM", (3, 224, 224), 8),
    ],
)
def test_the_protocol_s_batches_are_of_the_algorithm_s_own_size(algorithm, shape, size):
    settings = from_recipe("domainbed", input_shape=shape, dataset="tiny", algorithm=algorithm)
    assert count_anchors(settings, 2, shape) * 2 == size


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("only_in_test", [0, 2])
def test_a_label_that_only_the_test_environment_has_does_not_break_batches(sampling, only_in_test):
    dataset = make_data()
    keep = (dataset.labels != only_in_test) | (dataset.environments == 2)
    rows = np.flatnonzero(keep)
    part = dataset.subset(rows)
    settings = make_settings(sampling=sampling)
    data = split_for_run(settings, part)
    balancer = fit_balancer(settings, data)
    for batch in _draw(settings, data, balancer):
        assert len(batch) == 8 * 2 or sampling == "oracle"
        assert only_in_test not in data.train.labels[batch]


def _draw(settings, data, balancer):
    return make_batches(settings, data, balancer=balancer).draw_step(0)


def test_balanced_batches_need_a_balancer_of_this_data(data, balancer):
    settings = make_settings(sampling="balanced")
    with pytest.raises(ValueError, match="needs a fitted CausalBalancer"):
        make_batches(settings, data)
    other = split_for_run(settings, make_data(n=300))
    with pytest.raises(ValueError, match=r"fitted on 320 examples.*have 160"):
        make_batches(settings, other, balancer=balancer)


def test_oracle_batches_need_the_covariate():
    dataset = make_data()
    dataset.covariate = None
    settings = make_settings(sampling="oracle")
    with pytest.raises(ValueError, match="needs the true covariate"):
        make_batches(settings, split_for_run(settings, dataset))


def test_more_ranks_than_examples_are_refused(data):
    settings = make_settings(anchors_per_environment=1)
    with pytest.raises(ValueError, match="too few for 4 processes"):
        make_batches(settings, data, num_replicas=4)


class Files(Dataset):
    """What users have: `__len__` and `__getitem__`, an example at a time."""

    def __init__(self):
        self.data = make_data()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


@pytest.fixture
def wrapped():
    files = Files()
    names = np.asarray(files.data.environment_names)[files.data.environments]
    return as_environments(files, files.data.labels, names)


def test_a_users_dataset_trains_like_the_same_arrays(wrapped):
    assert train(make_settings(), wrapped) == train(make_settings(), make_data())


def test_workers_change_nothing_but_the_waiting(wrapped):
    settings = make_settings(steps=6)
    assert train(settings, wrapped, num_workers=2) == train(settings, wrapped)


def test_a_users_loader_over_balanced_batches_drives_an_algorithm():
    data = split_for_run(make_settings(), make_data())
    sampler = fit_balancer(make_settings(), data).batch_sampler(8)
    algorithm = ERM((6,), 3, 1, lr=1e-2)
    losses = [
        algorithm.update([(x, y)])["loss"]
        for epoch in range(3)
        for x, y in DataLoader(data.train, batch_sampler=sampler)
    ]
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


def test_arrays_tensors_and_datasets_become_environments():
    dataset = make_data()
    assert as_environments(dataset) is dataset
    x = dataset.fetch(np.arange(len(dataset)))
    for same in (x, x.numpy()):
        made = as_environments(same, dataset.labels, dataset.environments)
        assert torch.equal(made.fetch(np.arange(9)), x[:9])


def test_own_data_must_be_aligned_and_labelled():
    with pytest.raises(ValueError, match="labels and environments are needed"):
        as_environments(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="have 600, 2 and 2 rows"):
        as_environments(Files(), [0, 1], [0, 1])


def test_a_balancer_that_weighs_gives_batches_in_proportion_to_its_weights():
    settings = make_settings(sampling="balanced", selections=("train-domain",))
    data = split_for_run(settings, make_data())
    weights = np.where(data.train.labels == 0, 3.0, 1.0)
    weighing = SimpleNamespace(matches_=None, weights_=weights)
    batches = make_batches(settings, data, balancer=weighing)
    drawn = np.concatenate([part for step in range(60) for part in batches.draw_step(step)])
    expected = weights[data.train.labels == 0].sum() / weights.sum()
    assert np.mean(data.train.labels[drawn] == 0) == pytest.approx(expected, abs=0.02)
    random = make_batches(make_settings(), data).draw_step(0)
    assert [len(part) for part in batches.draw_step(0)] == [len(part) for part in random]
