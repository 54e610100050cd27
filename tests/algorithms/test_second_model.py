"""JTT, LfF, EIIL and PI against slow references."""

from itertools import pairwise, product

import numpy as np
import pytest
import torch

from equipoise.algorithms import get_algorithm
from equipoise.algorithms.risks import scale_slopes

from . import reference as ref
from .tiny import make, make_double, tiny_batches, tiny_net


def join(batches):
    x = np.concatenate([part for part, _ in ref.arrays(batches)])
    return x, np.concatenate([part for _, part in ref.arrays(batches)])


def second_model(w, prefix, x):
    return ref.linear(w, ref.encode(w, x, f"{prefix}.0.layer"), f"{prefix}.1")


def step_of(algorithm, batches):
    """The gradient that the algorithm takes in its next step."""
    steps = ref.record_steps(algorithm)
    algorithm.update(batches)
    (step,) = steps
    return step


def test_jtt_first_trains_one_model_then_upweighs_what_it_gets_wrong():
    jtt = make_double("JTT", jtt_identification_steps=1, jtt_upweight=7.0)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    first = step_of(jtt, batches)
    assert first.modules == {"first_model"}
    first.assert_matches(lambda w: ref.cross_entropy(second_model(w, "first_model", x), y))

    weights = np.ones(len(y))
    w0 = ref.weights_of(jtt)
    for n, logits in enumerate(second_model(w0, "first_model", x)):
        if np.argmax(logits) != y[n]:
            weights[n] = 7.0
    assert 1 < (weights > 1).sum() < len(y)

    second = step_of(jtt, batches)
    assert second.modules == {"featurizer", "classifier"}
    second.assert_matches(
        lambda w: float((weights * ref.each_loss(ref.predict(w, x), y)).sum() / weights.sum())
    )


def test_lff_weighs_by_relative_difficulty_and_trains_the_biased_model_on_what_is_easy():
    lff = make_double("LfF", lff_q=0.6)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    w0 = ref.weights_of(lff)
    biased, own = (
        ref.each_loss(logits, y)
        for logits in (second_model(w0, "biased_model", x), ref.predict(w0, x))
    )
    weights = np.empty(len(y))
    for n, label in enumerate(y):
        b, d = (losses[n] / losses[y == label].max() for losses in (biased, own))
        weights[n] = b / (b + d)

    def expected(w):
        p = ref.softmax(second_model(w, "biased_model", x))[np.arange(len(y)), y]
        generalised = np.mean((1 - p**0.6) / 0.6)
        return float(np.mean(weights * ref.each_loss(ref.predict(w, x), y)) + generalised)

    step_of(lff, batches).assert_matches(expected)


def test_eiil_finds_the_environments_of_the_largest_penalty_among_all():
    eiil = make_double("EIIL", eiil_reference_steps=0)
    batches = tiny_batches((6, 5), dtype=torch.float64)
    x, y = join(batches)
    logits = torch.tensor(second_model(ref.weights_of(eiil), "reference", x))
    slopes = scale_slopes(logits, torch.tensor(y)).numpy()

    def penalty(q):
        q = np.array(q)
        return np.mean(q * slopes) ** 2 + np.mean((1 - q) * slopes) ** 2

    best = max(product((0, 1), repeat=len(y)), key=penalty)
    found = eiil.infer_environments(batches, torch.tensor(y)).numpy()
    assert penalty(found) == pytest.approx(penalty(best))
    assert 0 < found.sum() < len(y)


def test_eiil_weighs_groups_of_label_and_inferred_environment_as_groupdro():
    eiil = make_double("EIIL", eiil_reference_steps=0, groupdro_eta=0.5)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    inferred = eiil.infer_environments(batches, torch.tensor(y)).numpy()
    q = dict.fromkeys(range(6), 1 / 6)

    def means(w):
        losses = ref.each_loss(ref.predict(w, x), y)
        groups = 2 * y + inferred
        return {g: losses[groups == g].mean() for g in np.unique(groups)}

    grown = {g: q[g] * np.exp(0.5 * mean) for g, mean in means(ref.weights_of(eiil)).items()}
    total = sum(grown.values())
    step_of(eiil, batches).assert_matches(
        lambda w: float(sum(grown[g] / total * mean for g, mean in means(w).items()))
    )


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
    assert accuracy(get_algorithm("ERM")((2,), 2, 2, **keywords)) < 0.3
    assert accuracy(get_algorithm("PI")((2,), 2, 2, **keywords, pi_partition_steps=100)) > 0.6
