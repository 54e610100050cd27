import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from equipoise.algorithms import ERM
from equipoise.benchmark import as_environments, fit_balancer, split_for_run, train

from .tiny import make_data, make_settings


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
