import numpy as np
import pytest
import torch

from equipoise.algorithms import ERM
from equipoise.algorithms.risks import scale_slopes

from . import reference as ref
from .tiny import make_double, tiny_batches


def test_the_objective_is_the_mean_loss_over_all_examples():
    erm = make_double("ERM")
    batches = tiny_batches(dtype=torch.float64)

    def expected(w):
        losses = [
            ref.cross_entropy(ref.predict(w, x[None]), y[None])
            for part_x, part_y in ref.arrays(batches)
            for x, y in zip(part_x, part_y, strict=True)
        ]
        return float(np.mean(losses))

    ref.assert_value_and_gradient_match(erm, erm.objective(batches)[0], expected)


@pytest.mark.parametrize("q", [0.3, 0.7, 1.0])
def test_the_generalised_cross_entropy_is_one_minus_a_power_of_the_labels_probability(q):
    erm = make_double("ERM", gce_q=q)
    batches = tiny_batches(dtype=torch.float64)

    def expected(w):
        powers = [
            ref.softmax(ref.predict(w, x))[np.arange(len(y)), y] ** q
            for x, y in ref.arrays(batches)
        ]
        return float(np.mean((1 - np.concatenate(powers)) / q))

    ref.assert_value_and_gradient_match(erm, erm.objective(batches)[0], expected)


def test_q_rises_from_the_cross_entropy_to_its_value():
    rising, plain, full = (
        make_double("ERM", **keywords)
        for keywords in ({"gce_q": 0.7, "gce_rise": 4}, {}, {"gce_q": 0.7})
    )
    found = []
    for seed in range(6):
        found.append(rising.find_q())
        rising.update(tiny_batches(seed=seed, dtype=torch.float64))
    assert found == pytest.approx([0, 0.175, 0.35, 0.525, 0.7, 0.7])
    logits, labels = torch.eye(3, dtype=torch.float64), torch.tensor([0, 0, 1])
    assert rising.loss(logits, labels) == full.loss(logits, labels) < plain.loss(logits, labels)


def test_slopes_in_the_scale_of_the_logits_follow_the_generalised_loss():
    erm = make_double("ERM", gce_q=0.7)
    (x, y), _ = tiny_batches(dtype=torch.float64)
    logits, step = erm.predict(x).detach(), 1e-6
    up, down = (erm.loss(logits * (1 + s), y, reduction="none") for s in (step, -step))
    torch.testing.assert_close(
        scale_slopes(logits, y, q=0.7), (up - down) / (2 * step), rtol=1e-6, atol=1e-9
    )


def test_a_step_is_that_of_adam():
    erm = make_double("ERM", lr=0.01, weight_decay=0.1)
    plain = make_double("ERM")
    adam = torch.optim.Adam(plain.parameters(), lr=0.01, weight_decay=0.1)
    for seed in range(3):
        batches = tiny_batches(seed=seed, dtype=torch.float64)
        erm.update(batches)
        adam.zero_grad()
        x, y = (torch.cat(part) for part in zip(*batches, strict=True))
        torch.nn.functional.cross_entropy(plain.predict(x), y).backward()
        adam.step()
    for ours, theirs in zip(erm.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_equal_seeds_give_equal_bits_and_other_seeds_do_not():
    def weights(seed):
        erm = ERM((1, 8, 8), 3, 1, featurizer="small-cnn", seed=seed, dropout=0.3)
        x = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        erm.update([(x, torch.arange(6) % 3)])
        return torch.cat([p.flatten() for p in erm.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_the_weights_grow_with_the_losses_and_weigh_them():
    dro = make_double("GroupDRO", n_environments=3, groupdro_eta=0.5)
    q = np.ones(3)
    for seed in range(3):
        batches = tiny_batches((9, 7, 4), seed=seed, dtype=torch.float64)
        losses = [
            ref.cross_entropy(ref.predict(ref.weights_of(dro), x), y)
            for x, y in ref.arrays(batches)
        ]
        q = q * np.exp(0.5 * np.array(losses))
        q /= q.sum()

        def expected(w, q=q, batches=batches):
            parts = [ref.cross_entropy(ref.predict(w, x), y) for x, y in ref.arrays(batches)]
            return float(np.dot(q, parts))

        ref.assert_value_and_gradient_match(dro, dro.objective(batches)[0], expected)
        np.testing.assert_allclose(dro.q.numpy(), q, rtol=1e-7)


def test_the_worse_environment_gains_weight_over_the_steps():
    dro = make_double("GroupDRO", groupdro_eta=0.1, lr=1e-2)
    batches = tiny_batches((30, 30), dtype=torch.float64)
    noise = torch.randint(3, (30,), generator=torch.Generator().manual_seed(1))
    batches[1] = (batches[1][0], noise)
    for _ in range(60):
        dro.update(batches)
    assert dro.q[1] > 0.8


@pytest.mark.parametrize(("steps", "weight"), [(0, 1.0), (10, 7.0)])
def test_the_objective_adds_the_variance_of_the_environments_losses(steps, weight):
    vrex = make_double("VREx", n_environments=3, vrex_lambda=7.0, vrex_penalty_anneal_iters=10)
    vrex.steps = steps
    batches = tiny_batches((9, 7, 4), dtype=torch.float64)

    def expected(w):
        losses = [ref.cross_entropy(ref.predict(w, x), y) for x, y in ref.arrays(batches)]
        mean = sum(losses) / 3
        return float(mean + weight * sum((loss - mean) ** 2 for loss in losses) / 3)

    ref.assert_value_and_gradient_match(vrex, vrex.objective(batches)[0], expected)


def test_a_large_penalty_evens_out_the_losses():
    def spread(weight):
        vrex = make_double("VREx", lr=1e-2, vrex_lambda=weight, vrex_penalty_anneal_iters=0)
        batches = tiny_batches((40, 40), dtype=torch.float64)
        batches[1] = (batches[1][0], (batches[1][1] + (torch.arange(40) % 3 == 0)) % 3)
        for _ in range(80):
            vrex.update(batches)
        with torch.no_grad():
            losses = [torch.nn.functional.cross_entropy(vrex.predict(x), y) for x, y in batches]
        return abs(float(losses[0] - losses[1]))

    assert spread(100.0) < 0.2 * spread(0.0)


def scale_slope(logits, labels):
    """∂ℓ(w·logits)/∂w at w = 1 by central differences."""
    step = 1e-5
    high = ref.cross_entropy((1 + step) * logits, labels)
    return (high - ref.cross_entropy((1 - step) * logits, labels)) / (2 * step)


def test_the_slope_of_each_example_is_the_finite_difference_in_the_scale():
    logits = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(8) % 4
    expected = [
        scale_slope(z[None], y[None]) for z, y in zip(logits.numpy(), labels.numpy(), strict=True)
    ]
    np.testing.assert_allclose(scale_slopes(logits, labels).numpy(), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("steps", "weight"), [(0, 1.0), (9, 1.0), (10, 50.0), (11, 50.0)])
def test_the_objective_adds_the_product_of_the_halves_slopes(steps, weight):
    irm = make_double("IRM", irm_lambda=50.0, irm_penalty_anneal_iters=10)
    irm.steps = steps
    batches = tiny_batches(dtype=torch.float64)
    draws = ref.twin(irm.generator)
    orders = [torch.randperm(len(y), generator=draws).numpy() for _, y in batches]

    def expected(w):
        losses, penalties = [], []
        for (x, y), order in zip(ref.arrays(batches), orders, strict=True):
            logits = ref.predict(w, x)
            losses.append(ref.cross_entropy(logits, y))
            halves = order[::2], order[1::2]
            slopes = [
                np.mean(
                    [
                        (p * z).sum() - z[label]
                        for p, z, label in zip(
                            ref.softmax(logits[half]), logits[half], y[half], strict=True
                        )
                    ]
                )
                for half in halves
            ]
            penalties.append(slopes[0] * slopes[1])
        return float(np.mean(losses) + weight * np.mean(penalties))

    ref.assert_value_and_gradient_match(irm, irm.objective(batches)[0], expected)


def test_adam_restarts_when_the_penalty_sets_in():
    irm = make_double("IRM", irm_penalty_anneal_iters=2)
    counts = []
    for seed in range(4):
        irm.update(tiny_batches(seed=seed, dtype=torch.float64))
        state = irm.training_state().tensors
        counts.append(int(state["optimizer.main.0.step"]))
    assert counts == [1, 2, 1, 2]
