"""The split is a partition of every environment that a run's seed cannot touch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data import split_environments


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
