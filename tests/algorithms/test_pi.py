from itertools import pairwise

import numpy as np
import torch

from equipoise.algorithms import ERM, PI

from . import reference as ref
from .tiny import make, make_double, tiny_batches, tiny_net


def groups_by_loops(w, data):
    groups = []
    for environment, (x, y) in enumerate(data):
        for other in range(len(data)):
            if other == environment:
                continue
            f = ref.encode(w, x, f"environment_networks.{other}.0.layer")
            guesses = ref.linear(w, f, f"environment_networks.{other}.1").argmax(axis=1)
            right, wrong = np.flatnonzero(guesses == y), np.flatnonzero(guesses != y)
            groups += [(environment, rows) for rows in (right, wrong) if len(rows)]
    return groups


def test_the_model_minimises_the_worst_group_of_right_and_wrong_predictions():
    pi = make_double("PI", n_environments=3, pi_partition_steps=5, lr=1e-2)
    for seed in range(5):
        pi.update(tiny_batches((12, 9, 8), seed=seed, dtype=torch.float64))
    batches = tiny_batches((12, 9, 8), seed=9, dtype=torch.float64)
    data = ref.arrays(batches)
    groups = groups_by_loops(ref.weights_of(pi), data)
    assert len(groups) == 12  # every one of 3·2 pairs gets some right and some wrong

    def group_losses(w):
        return [ref.cross_entropy(ref.predict(w, data[e][0][r]), data[e][1][r]) for e, r in groups]

    worst = int(np.argmax(group_losses(ref.weights_of(pi))))
    steps = ref.record_steps(pi)
    report = pi.update(batches)
    (step,) = steps
    assert step.modules == {"featurizer", "classifier"}
    step.assert_matches(lambda w: group_losses(w)[worst])
    assert report["worst_loss"] == step.loss


def test_the_environments_classifiers_are_frozen_after_the_partition_steps():
    pi = make("PI", pi_partition_steps=2)

    def classifiers():
        return torch.cat([p.detach().flatten() for p in pi.environment_networks.parameters()])

    states = [classifiers()]
    for seed in range(4):
        pi.update(tiny_batches(seed=seed))
        states.append(classifiers())
    changed = [not torch.equal(a, b) for a, b in pairwise(states)]
    assert changed == [True, True, False, False]


def test_it_leans_less_on_an_unstable_feature_than_erm():
    """x_0 agrees with y in 75 % everywhere, x_1 in 95 % and 85 %: ERM follows x_1."""
    generator = torch.Generator().manual_seed(0)

    def environment(agreement, n=3000):
        y = torch.randint(2, (n,), generator=generator)
        stable, unstable = (
            torch.where(torch.rand(n, generator=generator) < p, y, 1 - y) for p in (0.75, agreement)
        )
        return torch.stack([stable, unstable], dim=1).float() * 2 - 1, y

    batches = [environment(0.95), environment(0.85)]
    x_test, y_test = environment(0.1)

    def accuracy(algorithm):
        for _ in range(300):
            algorithm.update(batches)
        return float((algorithm.eval().predict(x_test).argmax(1) == y_test).float().mean())

    keywords = {"featurizer": tiny_net, "lr": 1e-2}
    assert accuracy(ERM((2,), 2, 2, **keywords)) < 0.3
    assert accuracy(PI((2,), 2, 2, **keywords, pi_partition_steps=100)) > 0.6
