import numpy as np
import pytest
import torch

from equipoise.algorithms import ARM

from . import reference as ref
from .tiny import make_double, tiny_batches, tiny_net


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
