import pytest
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


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
