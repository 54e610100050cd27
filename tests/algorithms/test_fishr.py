import numpy as np
import pytest
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def variances(w, f, y):
    """The gradient of each example's loss, entry by entry, then its variance."""
    gradients = []
    for row, label in zip(f, y, strict=True):
        residual = ref.softmax(ref.linear(w, row[None]))[0]
        residual[label] -= 1
        entries = [r * value for r in residual for value in [*row, 1.0]]
        gradients.append(entries)
    return np.var(np.array(gradients), axis=0)


@pytest.mark.parametrize(("steps", "weight"), [(0, 0.0), (5, 30.0)])
def test_the_objective_adds_the_spread_of_the_smoothed_gradient_variances(steps, weight):
    fishr = make_double(
        "Fishr", n_environments=3, fishr_lambda=30.0, penalty_anneal_iters=5, ema=0.8
    )
    fishr.steps = steps
    memory = np.zeros((3, 18))
    for seed in range(2):
        batches = tiny_batches((9, 7, 4), seed=seed, dtype=torch.float64)

        def smoothed(w, memory=memory, batches=batches):
            new = [variances(w, ref.encode(w, x), y) for x, y in ref.arrays(batches)]
            return 0.8 * memory + 0.2 * np.array(new)

        def expected(w, smoothed=smoothed, batches=batches):
            data = ref.arrays(batches)
            logits = np.concatenate([ref.predict(w, x) for x, _ in data])
            v = smoothed(w) / 0.2
            penalty = np.mean([np.mean((v[e] - v.mean(axis=0)) ** 2) for e in range(3)])
            return (
                ref.cross_entropy(logits, np.concatenate([y for _, y in data])) + weight * penalty
            )

        ref.assert_value_and_gradient_match(fishr, fishr.objective(batches)[0], expected)
        memory = smoothed(ref.weights_of(fishr))
        np.testing.assert_allclose(fishr.variances.numpy(), memory, rtol=1e-9, atol=1e-14)


def test_the_reference_gradient_is_that_of_autograd():
    fishr = make_double("Fishr")
    (x, y), _ = tiny_batches(dtype=torch.float64)
    f = torch.tensor(ref.encode(ref.weights_of(fishr), x.numpy()))
    rows = []
    for row, label in zip(f, y, strict=True):
        loss = torch.nn.functional.cross_entropy(fishr.classifier(row[None]), label[None])
        weight, bias = torch.autograd.grad(loss, list(fishr.classifier.parameters()))
        rows.append(torch.cat([weight, bias[:, None]], dim=1).flatten())
    expected = torch.stack(rows).var(dim=0, unbiased=False).numpy()
    slow = variances(ref.weights_of(fishr), f.numpy(), y.numpy())
    np.testing.assert_allclose(slow, expected, rtol=1e-9)
