from copy import deepcopy
from itertools import cycle

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from equipoise.algorithms.gradients import gradient_variances

from . import reference as ref
from .tiny import make, make_double, tiny_batches


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


def variances(w, f, y):
    """The gradient of each example's loss, entry by entry, then its variance."""
    gradients = []
    for row, label in zip(f, y, strict=True):
        residual = ref.softmax(ref.linear(w, row[None]))[0]
        residual[label] -= 1
        entries = [r * value for r in residual for value in [*row, 1.0]]
        gradients.append(entries)
    return np.var(np.array(gradients), axis=0)


def test_gradient_variances_are_those_of_the_generalised_cross_entropy():
    fishr = make_double("Fishr", gce_q=0.7)
    (x, y), _ = tiny_batches(dtype=torch.float64)
    features, head = fishr.featurizer(x).detach(), fishr.classifier
    gradients = []
    for f, label in zip(features, y, strict=True):
        loss = fishr.loss(head(f[None]), label[None])
        weight, bias = torch.autograd.grad(loss, [head.weight, head.bias])
        gradients.append(torch.cat([weight, bias[:, None]], dim=1).flatten())
    expected = torch.stack(gradients).var(dim=0, unbiased=False)
    found = gradient_variances(features, head(features), y, q=0.7)
    torch.testing.assert_close(found, expected)


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
