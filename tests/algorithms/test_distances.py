import numpy as np
import pytest
import torch

from equipoise.algorithms.distances import coral_distance, mmd_distance


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
