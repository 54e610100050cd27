from copy import deepcopy
from itertools import cycle

import pytest
import torch
from torch.nn.functional import cross_entropy

from . import reference as ref
from .tiny import make, make_double, tiny_batches


def test_the_weights_move_part_of_the_way_to_a_clone_that_walked_through_the_environments():
    fish = make_double("Fish", n_environments=3, lr=0.05, meta_lr=0.3, weight_decay=0.1)
    theta = torch.nn.Sequential(deepcopy(fish.featurizer), deepcopy(fish.classifier))
    moments = None
    for seed in range(3):
        batches = tiny_batches((9, 7, 4), seed=seed, dtype=torch.float64)
        clone = deepcopy(theta)
        adam = torch.optim.Adam(clone.parameters(), lr=0.05, weight_decay=0.1)
        if moments is not None:
            adam.load_state_dict(moments)
        for x, y in batches:
            adam.zero_grad()
            cross_entropy(clone(x), y).backward()
            adam.step()
        moments = adam.state_dict()
        with torch.no_grad():
            for p, q in zip(theta.parameters(), clone.parameters(), strict=True):
                p.add_(0.3 * (q - p))
        fish.update(batches)
    for ours, slow in zip(fish.parameters(), theta.parameters(), strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-9, atol=1e-12)


def gradient_by_cloning(mldg, batches, order, n_test, beta):
    """A copy of the model takes a real Adam step on i; its gradient on j is added to that on i."""
    total = [torch.zeros_like(p) for p in mldg.parameters()]
    settings = mldg.settings
    for i, j in zip(order[: len(order) - n_test], cycle(order[-n_test:]), strict=False):
        clone = torch.nn.Sequential(deepcopy(mldg.featurizer), deepcopy(mldg.classifier))
        kind = torch.optim.AdamW if settings["optimizer"] == "adamw" else torch.optim.Adam
        adam = kind(clone.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"])
        n = min(len(batches[i][1]), len(batches[j][1]))  # as DomainBed cuts pairs
        cross_entropy(clone(batches[i][0][:n]), batches[i][1][:n]).backward()
        g_i = [p.grad.clone() for p in clone.parameters()]
        adam.step()
        adam.zero_grad()
        cross_entropy(clone(batches[j][0][:n]), batches[j][1][:n]).backward()
        for t, a, p in zip(total, g_i, clone.parameters(), strict=True):
            t += (a + beta * p.grad) / len(batches)
    return total


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
@pytest.mark.parametrize(("sizes", "n_test"), [((9, 7), 1), ((9, 7, 4), 2), ((9, 7, 4, 5), 2)])
def test_the_gradient_is_that_of_a_clone_that_took_an_adam_step(
    monkeypatch, sizes, n_test, optimizer
):
    mldg = make_double(
        "MLDG", len(sizes), lr=0.1, weight_decay=0.2, mldg_beta=0.7, optimizer=optimizer
    )
    batches = tiny_batches(sizes, dtype=torch.float64)
    seen = []
    monkeypatch.setattr(mldg, "descend", lambda gradients: seen.extend(gradients))
    order = torch.randperm(len(sizes), generator=ref.twin(mldg.generator)).tolist()
    expected = gradient_by_cloning(mldg, batches, order, n_test, beta=0.7)
    mldg._update(batches)
    for ours, slow in zip(seen, expected, strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-8, atol=1e-11)


def test_it_learns_with_two_environments_and_default_settings():
    mldg = make("MLDG", lr=1e-2)
    batches = tiny_batches((24, 16))
    losses = [mldg.update(batches)["loss"] for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
