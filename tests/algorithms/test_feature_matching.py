from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from equipoise.algorithms.feature_matching import coral_distance, mmd_distance

from . import reference as ref
from .tiny import N_LABELS, make_double, tiny_batches


def sample(n, d=4, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=generator, dtype=torch.float64) + shift


def coral_by_loops(a, b):
    d = a.shape[1]
    means = sum((a[:, k].mean() - b[:, k].mean()) ** 2 for k in range(d)) / d
    first = np.cov(a.T) if len(a) > 1 else np.zeros((d, d))
    second = np.cov(b.T) if len(b) > 1 else np.zeros((d, d))
    return means + ((first - second) ** 2).sum() / d**2


def mmd_by_loops(a, b):
    def kernel(p, q):
        squared = ((p - q) ** 2).sum()
        return sum(np.exp(-(10.0**power) * squared) for power in range(-3, 4))

    def mean_kernel(first, second):
        return np.mean([[kernel(p, q) for q in second] for p in first])

    return mean_kernel(a, a) + mean_kernel(b, b) - 2 * mean_kernel(a, b)


@pytest.mark.parametrize(
    ("fast", "slow"), [(coral_distance, coral_by_loops), (mmd_distance, mmd_by_loops)]
)
@pytest.mark.parametrize("sizes", [(6, 9), (5, 5), (1, 4)])
def test_a_distance_equals_its_definition_and_its_gradient_the_finite_difference(fast, slow, sizes):
    a, b = sample(sizes[0], seed=1), sample(sizes[1], seed=2, shift=0.3)
    np.testing.assert_allclose(float(fast(a, b)), slow(a.numpy(), b.numpy()), rtol=1e-9)

    a.requires_grad_()
    (gradient,) = torch.autograd.grad(fast(a, b), a)
    direction = sample(sizes[0], seed=3).numpy()
    step = 1e-6
    low, high = (slow(a.detach().numpy() + s * direction, b.numpy()) for s in (-step, step))
    claimed = (gradient.numpy() * direction).sum()
    np.testing.assert_allclose(claimed, (high - low) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("distance", [coral_distance, mmd_distance])
def test_equal_samples_have_distance_zero_and_far_features_lose_no_precision(distance):
    a = sample(20).float()
    assert float(distance(a, a.clone())) == pytest.approx(0, abs=1e-6)
    b = sample(20, seed=5).float()
    near, far = float(distance(a, b)), float(distance(a + 100, b + 100))
    assert far == pytest.approx(near, rel=1e-2)


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


SMALL = {"mlp_width": 4, "mlp_depth": 3}


def discriminator_loss(w, inputs, labels, environments, *, by_label, grad_penalty):
    """Example by example; the gradient of the input by finite differences."""

    def loss_of(row, environment):
        hidden = row[None]
        for layer in (0, 3):
            hidden = np.maximum(ref.linear(w, hidden, f"discriminator.layers.{layer}"), 0)
        return -np.log(ref.softmax(ref.linear(w, hidden, "discriminator.layers.6"))[0, environment])

    present = set(labels.tolist())
    total = 0.0
    for row, label, environment in zip(inputs, labels, environments, strict=True):
        weight = 1 / ((labels == label).sum() * len(present)) if by_label else 1 / len(labels)
        total += weight * loss_of(row, environment)
        if grad_penalty:
            slopes = [
                (loss_of(row + 1e-5 * e, environment) - loss_of(row - 1e-5 * e, environment)) / 2e-5
                for e in np.eye(len(row))
            ]
            total += grad_penalty * np.square(slopes).sum() / len(labels)
    return float(total)


def reference_losses(algorithm, batches, *, grad_penalty):
    conditional = type(algorithm).__name__ == "CDANN"
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    environments = np.repeat(np.arange(len(data)), [len(part) for _, part in data])

    def disc(w):
        inputs = ref.encode(w, x)
        if conditional:
            inputs = inputs + w["label_embeddings.weight"][y]
        return discriminator_loss(
            w, inputs, y, environments, by_label=conditional, grad_penalty=grad_penalty
        )

    return disc, lambda w: ref.cross_entropy(ref.predict(w, x), y)


def without_label(batches, label):
    return [(x[y != label], y[y != label]) for x, y in batches]


@pytest.mark.parametrize("name", ["DANN", "CDANN"])
@pytest.mark.parametrize("grad_penalty", [0.0, 0.3])
def test_the_two_players_minimise_what_the_equations_say(name, grad_penalty):
    algorithm = make_double(name, dann_lambda=0.7, grad_penalty=grad_penalty, **SMALL)
    batches = without_label(tiny_batches((9, 7), dtype=torch.float64), label=N_LABELS - 1)
    disc, classification = reference_losses(algorithm, batches, grad_penalty=grad_penalty)
    steps = ref.record_steps(algorithm)
    algorithm.update(batches)
    algorithm.update(batches)
    generator, discriminator = steps

    assert generator.optimizers == ("main",)
    assert generator.modules == {"featurizer", "classifier"}
    generator.assert_matches(lambda w: classification(w) - 0.7 * disc(w), rtol=1e-6)

    assert discriminator.optimizers == ("discriminator",)
    assert discriminator.modules <= {"discriminator", "label_embeddings"}
    discriminator.assert_matches(disc, rtol=1e-6)


def test_the_discriminator_takes_the_stated_number_of_steps_between_the_others():
    dann = make_double("DANN", d_steps_per_g_step=3, **SMALL)
    steps = ref.record_steps(dann)
    for seed in range(8):
        dann.update(tiny_batches(seed=seed, dtype=torch.float64))
    turns = [step.optimizers[0][0] for step in steps]
    assert "".join(turns) == "ddmdddmd"


def test_adam_has_the_betas_and_rates_of_the_benchmark():
    dann = make_double("DANN", lr=0.1, lr_d=0.2, weight_decay_d=0.3, **SMALL)
    main, discriminator = (dann.optimizers[k].param_groups[0] for k in ("main", "discriminator"))
    assert main["betas"] == discriminator["betas"] == (0.5, 0.9)
    assert (main["lr"], main["weight_decay"]) == (0.1, 0.0)
    assert (discriminator["lr"], discriminator["weight_decay"]) == (0.2, 0.3)
