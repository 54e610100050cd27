"""The contract: examples by index batch, two aligned arrays, and a split of each environment."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from equipoise.data import (
    Examples,
    as_source,
    fingerprint_data,
    get_dataset,
    list_datasets,
    split_environments,
)
from equipoise.data.dataset import FINGERPRINT_BLOCK


def test_a_plain_loader_and_a_whole_batch_loader_give_the_same_batches(spurious):
    batches = [[0, 5, 7], [2, 2, 1]]
    item_by_item = DataLoader(spurious, batch_sampler=batches)
    at_once = DataLoader(spurious, sampler=batches, batch_size=None)
    for (x, y), (x_whole, y_whole) in zip(item_by_item, at_once, strict=True):
        assert torch.equal(x, x_whole)
        assert torch.equal(y, y_whole)


def test_a_subset_reaches_only_its_own_examples(spurious):
    part = spurious.subset([10, 20, 30])
    assert len(part) == 3
    assert torch.equal(part[[2]][0], spurious[[30]][0])
    assert part.covariate.tolist() == spurious.covariate[[10, 20, 30]].tolist()
    with pytest.raises(IndexError):
        part[[3]]


def test_labels_and_environments_may_be_strings():
    data = Examples(np.zeros((3, 2)), ["b", "a", "b"], ["x", "x", "y"])
    assert data.labels.tolist() == [1, 0, 1]
    assert data.label_names == ("a", "b")


def test_uint8_arrays_are_pixels_on_zero_to_one():
    source = as_source(np.array([[0, 255]], dtype=np.uint8))
    assert source.fetch(np.array([0])).tolist() == [[0.0, 1.0]]


def test_any_map_style_dataset_is_a_source():
    class Plain:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return torch.tensor([float(index), 1.0]), "label"

    assert as_source(Plain()).fetch(np.array([1, 0])).tolist() == [[1.0, 1.0], [0.0, 1.0]]


def test_an_unknown_dataset_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'ColoredMNIST10'"):
        get_dataset("ColouredMNIST10")
    assert set(list_datasets()) >= {"ColoredMNIST", "ColoredMNIST10", "RotatedMNIST"}


@given(st.lists(st.integers(0, 3), min_size=1, max_size=200), st.integers(0, 5))
def test_the_two_parts_are_everything_once(environments, seed):
    split = split_environments(environments, data_seed=seed)
    both = np.concatenate([split.train, split.held_out])
    assert sorted(both.tolist()) == list(range(len(environments)))


def test_every_environment_gives_its_share():
    environments = np.repeat([0, 1, 2], [100, 50, 10])
    split = split_environments(environments)
    assert np.bincount(environments[split.held_out]).tolist() == [20, 10, 2]


def test_another_data_seed_deals_another_split_and_the_same_seed_the_same():
    environments = np.zeros(100, dtype=int)
    first = split_environments(environments, data_seed=1).held_out
    assert (first == split_environments(environments, data_seed=1).held_out).all()
    assert (first != split_environments(environments, data_seed=2).held_out).any()


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_a_share_that_leaves_a_part_empty_is_refused(share):
    with pytest.raises(ValueError, match="held_out"):
        split_environments([0, 1], held_out=share)


def _flat(x):
    return Examples(x, np.arange(len(x)) % 2, np.arange(len(x)) // 2 % 2)


@pytest.mark.parametrize("row", [0, FINGERPRINT_BLOCK - 1, FINGERPRINT_BLOCK, 5001, 9999])
def test_a_change_of_any_single_value_is_seen(row):
    x = np.zeros((10_000, 4000), dtype=np.uint8)  # more values than any sample of rows would hold
    before = fingerprint_data(_flat(x))
    assert fingerprint_data(_flat(x.copy())) == before
    x[row, 77] = 1
    assert fingerprint_data(_flat(x)) != before
