"""Weighted batches show examples as often as their weights say."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.balance import WeightedBatchSampler


def weigh(n=300, n_labels=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(n_labels, size=n), rng.integers(2, size=n)
    weights = rng.gamma(0.5, size=n) * (rng.random(n) < 0.9)
    chosen = {"examples_per_environment": 12, **options}
    return WeightedBatchSampler(weights, labels, environments, **chosen)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 5), st.sampled_from([1, 5, 12]))
def test_an_example_appears_as_often_as_its_weight_says_rounded(seed, n_labels, size):
    sampler = weigh(n_labels=n_labels, seed=seed, examples_per_environment=size)
    counts = np.zeros(len(sampler.weights))
    for step in sampler.steps():
        assert [len(part) for part in step] == [size, size]
        for code, part in enumerate(step):
            assert (sampler.environments[part] == code).all()
            np.add.at(counts, part, 1)
    for code in (0, 1):
        rows = sampler.environments == code
        expected = sampler.weights[rows] / sampler.weights[rows].sum() * len(sampler) * size
        assert (np.abs(counts[rows] - expected) < 1 + 1e-9).all()


def test_every_weighted_batch_has_the_labels_in_the_shares_of_their_weights():
    sampler = weigh(n=2000, examples_per_environment=30)
    for code in (0, 1):
        rows = sampler.environments == code
        mass = np.bincount(sampler.labels[rows], weights=sampler.weights[rows])
        for step in sampler.steps():
            seen = np.bincount(sampler.labels[step[code]], minlength=3)
            assert (np.abs(seen - 30 * mass / mass.sum()) < 2).all()
        sampler.set_epoch(0)


def test_weighted_draws_are_unbiased_over_epochs():
    sampler = WeightedBatchSampler([1, 2, 4, 3], [0, 0, 1, 1], None, examples_per_environment=3)
    drawn = np.concatenate([np.concatenate(list(sampler)) for _ in range(1500)])
    share = np.bincount(drawn) / len(drawn)
    assert np.abs(share - [0.1, 0.2, 0.4, 0.3]).max() < 4 * np.sqrt(0.25 / len(drawn))


def test_weighted_batches_are_shared_resumed_and_repeated_like_matched_ones():
    single = list(weigh(num_replicas=1, rank=0))
    shares = [list(weigh(num_replicas=3, rank=rank)) for rank in range(3)]
    for batch, *parts in zip(single, *shares, strict=True):
        assert Counter(batch) == sum((Counter(part) for part in parts), Counter())
    resumed = weigh()
    resumed.load_state_dict({"seed": 0, "epoch": 0, "position": 2})
    assert list(resumed) == single[2:]
    assert next(iter(resumed)) != single[0]
    assert (
        repr(resumed) == "WeightedBatchSampler(2 environments × 12 examples, 13 batches an epoch)"
    )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "one for each of the 4 examples"),
        ([1.0, np.nan, 1.0, 1.0], "finite and not negative"),
        ([1.0, -1.0, 1.0, 1.0], "finite and not negative"),
        (np.zeros(4), "all weights are 0"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        WeightedBatchSampler(weights, [0, 1, 0, 1], [0, 0, 1, 1], examples_per_environment=2)


def test_an_environment_without_weight_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"environments \[1\] has a weight above 0"):
        sampler = WeightedBatchSampler(
            [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 1, 1], examples_per_environment=2
        )
    assert [sorted(batch) for batch in sampler] == [[0, 1]]
