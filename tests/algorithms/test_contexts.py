import numpy as np
import pytest
import torch

from equipoise.algorithms.contexts import ARM

from . import reference as ref
from .tiny import make_double, tiny_batches, tiny_net


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


def context(w, x):
    hidden = x
    for layer, norm in ((0, 1), (3, 4)):
        hidden = ref.linear(w, hidden, f"context.{layer}")
        hidden = np.maximum(ref.batch_norm(hidden, w, f"context.{norm}"), 0)
    return ref.linear(w, hidden, "context.6")


def test_each_example_meets_the_mean_context_of_its_environment():
    arm = make_double("ARM")
    batches = tiny_batches((9, 7), dtype=torch.float64)

    def expected(w):
        data = ref.arrays(batches)
        contexts = context(w, np.concatenate([x for x, _ in data]))
        parts = np.split(contexts, [9])
        logits = [
            ref.predict(w, np.array([np.concatenate([row, part.mean(axis=0)]) for row in x]))
            for (x, _), part in zip(data, parts, strict=True)
        ]
        return ref.cross_entropy(np.concatenate(logits), np.concatenate([y for _, y in data]))

    ref.assert_value_and_gradient_match(arm, arm.objective(batches)[0], expected)


def test_the_context_network_is_trained():
    arm = make_double("ARM")
    before = arm.context[0].weight.detach().clone()
    arm.update(tiny_batches(dtype=torch.float64))
    assert not torch.equal(before, arm.context[0].weight)


def test_images_get_the_context_as_one_more_channel():
    arm = ARM((2, 8, 8), 3, 2, featurizer="small-cnn").eval()
    assert arm.featurizer.layers[0].in_channels == 3
    x = torch.rand(5, 2, 8, 8)
    with torch.no_grad():
        map_ = torch.stack([arm.context(row[None])[0] for row in x]).mean(dim=0)
        slow = [arm.classifier(arm.featurizer(torch.cat([row, map_])[None]))[0] for row in x]
        torch.testing.assert_close(arm.predict(x), torch.stack(slow))


def test_a_ready_module_is_refused_because_it_lacks_the_channel():
    with pytest.raises(ValueError, match="function input_shape -> module"):
        ARM((6,), 3, 2, featurizer=tiny_net((6,)))
