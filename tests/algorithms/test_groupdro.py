import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


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
