import numpy as np
import torch

from equipoise.algorithms import ERM

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
