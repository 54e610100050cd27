import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches

EPSILON = 1e-5


def separate(f):
    mean = f.mean(axis=1, keepdims=True)
    variance = f.var(axis=1, ddof=1, keepdims=True)
    return (f - mean) / np.sqrt(variance + EPSILON), mean, variance


def test_each_of_the_three_steps_minimises_its_own_loss():
    sagnet = make_double("SagNet", sag_w_adv=0.4)
    batches = tiny_batches((5, 4), dtype=torch.float64)
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    draws = ref.twin(sagnet.generator)
    share = torch.rand(9, 1, generator=draws).double().numpy()
    other, second, third = (torch.randperm(9, generator=draws).numpy() for _ in range(3))

    def content_loss(w):
        content, mean, variance = separate(ref.encode(w, x))
        mean = share * mean + (1 - share) * mean[other]
        variance = share * variance + (1 - share) * variance[other]
        return ref.cross_entropy(ref.linear(w, content * np.sqrt(variance + EPSILON) + mean), y)

    def style_logits(w, order, content):
        _, mean, variance = separate(ref.encode(w, x))
        swapped = content[order] * np.sqrt(variance + EPSILON) + mean
        return ref.linear(w, swapped, "style_classifier")

    steps = ref.record_steps(sagnet)
    sagnet._update(batches)
    content, style, adversary = steps
    # the content that is swapped in passes no gradient
    fixed = [separate(ref.encode(step.weights, x))[0] for step in (style, adversary)]

    assert content.optimizers == ("featurizer", "content")
    content.assert_matches(content_loss)

    assert style.optimizers == ("style",)
    style.assert_matches(lambda w: ref.cross_entropy(style_logits(w, second, fixed[0]), y))

    assert adversary.optimizers == ("featurizer",)
    adversary.assert_matches(
        lambda w: -0.4 * float(np.log(ref.softmax(style_logits(w, third, fixed[1]))).mean())
    )
