import numpy as np
import pytest
import torch

from equipoise.algorithms.irm import scale_slopes

from . import reference as ref
from .tiny import make_double, tiny_batches


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
