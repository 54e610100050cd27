import numpy as np
import pytest
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def environment_gradients(algorithm, batches):
    """Entry by entry, by central differences."""
    start = ref.weights_of(algorithm)
    gradients = []
    for x, y in ref.arrays(batches):
        by_name = {}
        for name, value in start.items():
            gradient = np.empty(value.shape)
            for index in np.ndindex(value.shape):
                direction = {n: np.zeros_like(w) for n, w in start.items()}
                direction[name][index] = 1.0
                gradient[index] = ref.slope(
                    lambda w, x=x, y=y: ref.cross_entropy(ref.predict(w, x), y), start, direction
                )
            by_name[name] = gradient
        gradients.append(by_name)
    return gradients


def and_mask(entries, tau):
    return 1.0 if abs(np.mean(np.sign(entries))) >= tau else 0.0


def sand_mask(entries, tau, k):
    agreement = abs(np.mean(np.sign(entries)))
    return max(0.0, np.tanh(k / np.var(entries, ddof=1) * (agreement - tau)))


CASES = [
    ("ANDMask", {}, lambda g: and_mask(g, 1.0)),
    ("ANDMask", {"tau": 0.3}, lambda g: and_mask(g, 0.3)),
    ("SANDMask", {}, lambda g: sand_mask(g, 0.5, 10.0)),
    ("SANDMask", {"tau": 0.2, "k": 1e-3}, lambda g: sand_mask(g, 0.2, 1e-3)),
]


@pytest.mark.parametrize(("name", "settings", "mask_of"), CASES)
def test_the_mean_gradient_is_masked_and_scaled_tensor_by_tensor(
    monkeypatch, name, settings, mask_of
):
    algorithm = make_double(name, n_environments=4, **settings)
    batches = tiny_batches((9, 7, 4, 6), dtype=torch.float64)
    slow = environment_gradients(algorithm, batches)
    seen = []
    monkeypatch.setattr(algorithm, "descend", lambda gradients: seen.extend(gradients))
    algorithm._update(batches)
    kept = 0
    for (parameter, _), ours in zip(algorithm.named_parameters(), seen, strict=True):
        stacked = np.stack([gradients[parameter] for gradients in slow])
        mask = np.apply_along_axis(mask_of, 0, stacked)
        expected = mask * stacked.mean(axis=0) / (1e-10 + mask.mean())
        np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-4, atol=1e-7)
        kept += int((mask > 0).sum())
    assert 0 < kept < 53  # some entries pass and some do not


def test_sandmask_with_tau_one_can_learn_nothing_which_is_why_it_is_not_the_default():
    gradients = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    assert make_double("SANDMask", 3, tau=1.0).mask(gradients).sum() == 0
    assert make_double("SANDMask", 3).mask(gradients).sum() > 0
