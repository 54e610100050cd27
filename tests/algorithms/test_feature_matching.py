from itertools import combinations

import numpy as np
import pytest
import torch

from . import reference as ref
from .test_distances import coral_by_loops, mmd_by_loops
from .tiny import make_double, tiny_batches


@pytest.mark.parametrize(("name", "slow"), [("CORAL", coral_by_loops), ("MMD", mmd_by_loops)])
def test_the_objective_adds_the_mean_distance_over_all_pairs_of_environments(name, slow):
    algorithm = make_double(name, n_environments=3, mmd_gamma=2.5)
    batches = tiny_batches((6, 5, 4), dtype=torch.float64)

    def expected(w):
        data = ref.arrays(batches)
        features = [ref.encode(w, x) for x, _ in data]
        losses = [
            ref.cross_entropy(ref.linear(w, f), y) for f, (_, y) in zip(features, data, strict=True)
        ]
        pairs = [slow(a, b) for a, b in combinations(features, 2)]
        return float(np.mean(losses) + 2.5 * np.mean(pairs))

    ref.assert_value_and_gradient_match(algorithm, algorithm.objective(batches)[0], expected)


@pytest.mark.parametrize(
    ("name", "slow"), [("CausIRL_CORAL", coral_by_loops), ("CausIRL_MMD", mmd_by_loops)]
)
def test_causirl_compares_the_pieces_before_and_after_random_cuts(name, slow):
    algorithm = make_double(name, mmd_gamma=2.5)
    batches = tiny_batches((6, 5), dtype=torch.float64)
    draws = ref.twin(algorithm.generator)
    cuts = [int(torch.randint(len(y), (), generator=draws)) for _, y in batches]
    assert 2 <= sum(cuts) <= 9  # both pools have examples, else the test shows nothing

    def expected(w):
        data = ref.arrays(batches)
        features = [ref.encode(w, x) for x, _ in data]
        losses = [
            ref.cross_entropy(ref.linear(w, f), y) for f, (_, y) in zip(features, data, strict=True)
        ]
        first = np.array([row for f, c in zip(features, cuts, strict=True) for row in f[:c]])
        second = np.array([row for f, c in zip(features, cuts, strict=True) for row in f[c:]])
        return float(np.mean(losses) + 2.5 * slow(first, second))

    ref.assert_value_and_gradient_match(algorithm, algorithm.objective(batches)[0], expected)


@pytest.mark.parametrize("name", ["CORAL", "MMD"])
def test_the_penalty_falls_when_it_is_all_that_counts(name):
    algorithm = make_double(name, lr=1e-2, mmd_gamma=1e3)
    batches = tiny_batches((20, 20), dtype=torch.float64)
    penalties = [algorithm.update(batches)["penalty"] for _ in range(60)]
    assert sum(penalties[-10:]) < 0.5 * sum(penalties[:10])
