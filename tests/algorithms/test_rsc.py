import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def kept_by_loops(w, f, y):
    kept = np.ones_like(f)
    drops = np.empty(len(f))
    muted = np.empty_like(f)
    for n, row in enumerate(f):
        slopes = w["classifier.weight"][y[n]]
        muted[n] = np.where(slopes < np.percentile(slopes, 100 * (1 - 0.4)), 1.0, 0.0)
        before = ref.softmax(ref.linear(w, row[None]))[0, y[n]]
        drops[n] = before - ref.softmax(ref.linear(w, (row * muted[n])[None]))[0, y[n]]
    bound = np.percentile(drops, 100 * (1 - 0.25))
    for n in range(len(f)):
        if drops[n] >= bound:
            kept[n] = muted[n]
    return kept


def test_the_most_telling_features_of_the_most_shaken_examples_are_muted():
    rsc = make_double("RSC", rsc_f_drop_factor=0.4, rsc_b_drop_factor=0.25)
    batches = tiny_batches(dtype=torch.float64)
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    start = ref.weights_of(rsc)
    kept = kept_by_loops(start, ref.encode(start, x), y)
    assert (kept == 0).any(axis=1).sum() == 4  # a quarter of 16 examples

    fast = rsc.kept_features(torch.tensor(ref.encode(start, x)), torch.tensor(y))
    np.testing.assert_array_equal(fast.numpy(), kept)

    def expected(w):
        return ref.cross_entropy(ref.linear(w, ref.encode(w, x) * kept), y)

    ref.assert_value_and_gradient_match(rsc, rsc.objective(batches)[0], expected)


def test_double_precision_slopes_are_compared_in_double_precision():
    """Rounded to single precision the quantile would fall on the wrong side of its own slope."""
    rsc = make_double("RSC", rsc_f_drop_factor=0.4, rsc_b_drop_factor=1.0)
    torch.manual_seed(0)
    for _ in range(20):
        torch.nn.init.normal_(rsc.classifier.weight)
        features, labels = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
        kept = rsc.kept_features(features, labels).numpy()
        slopes = rsc.classifier.weight.detach().numpy()[labels]
        bounds = np.percentile(slopes, 60, axis=1, keepdims=True)
        np.testing.assert_array_equal(kept, slopes < bounds)
