"""The contract: examples by index batch, and two aligned arrays."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from equipoise.data import ArrayEnvironments, as_source, get_dataset, list_datasets


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
    data = ArrayEnvironments(np.zeros((3, 2)), ["b", "a", "b"], ["x", "x", "y"])
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
