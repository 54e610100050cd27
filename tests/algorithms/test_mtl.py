import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def classify(w, f, embedding):
    return ref.linear(w, np.array([np.concatenate([row, embedding]) for row in f]))


def test_the_classifier_sees_the_running_mean_of_its_environments_features():
    mtl = make_double("MTL", mtl_ema=0.6)
    memory = np.zeros((2, 5))
    for seed in range(2):
        batches = tiny_batches(seed=seed, dtype=torch.float64)

        def expected(w, memory=memory, batches=batches):
            total = 0.0
            for environment, (x, y) in enumerate(ref.arrays(batches)):
                f = ref.encode(w, x)
                embedding = 0.6 * f.mean(axis=0) + 0.4 * memory[environment]
                total += ref.cross_entropy(classify(w, f, embedding), y)
            return total

        ref.assert_value_and_gradient_match(mtl, mtl.objective(batches)[0], expected)
        w = ref.weights_of(mtl)
        means = np.array([ref.encode(w, x).mean(axis=0) for x, _ in ref.arrays(batches)])
        memory = 0.6 * means + 0.4 * memory
        np.testing.assert_allclose(mtl.embeddings.numpy(), memory, rtol=1e-9)


def test_a_prediction_uses_the_mean_of_the_batch_and_no_noise():
    mtl = make_double("MTL").eval()
    x = tiny_batches(dtype=torch.float64)[0][0]
    w = ref.weights_of(mtl)
    f = ref.encode(w, x.numpy())
    with torch.no_grad():
        first, second = mtl.predict(x), mtl.predict(x)
    assert torch.equal(first, second)
    np.testing.assert_allclose(first.numpy(), classify(w, f, f.mean(axis=0)), rtol=1e-9)
