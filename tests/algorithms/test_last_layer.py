"""DFR and AFR against slow references."""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from equipoise.algorithms import HeldOut
from equipoise.algorithms.last_layer import draw_balanced, fit_linear

from . import reference as ref
from .tiny import make_double, tiny_batches


def held_out(n=90, seed=3):
    (x, y), *_ = tiny_batches((n,), seed=seed, dtype=torch.float64)
    groups = 2 * y + (torch.arange(n) % 5 == 0)  # the second group of a label is rare
    return x, HeldOut(y, groups, lambda: iter(x.split(40)))


def test_a_linear_layer_is_that_of_scikit_learn():
    x, data = held_out()
    layer = fit_linear(
        x, data.labels, torch.zeros(3, 7).double(), lambda w: 0.05 * w[:, :-1].square().sum()
    )
    slow = LogisticRegression(C=1 / (0.1 * len(x)), tol=1e-10, max_iter=10_000)
    slow.fit(x.numpy(), data.labels.numpy())
    ours = torch.softmax(x @ layer[:, :-1].T + layer[:, -1], dim=1).numpy()
    np.testing.assert_allclose(ours, slow.predict_proba(x.numpy()), atol=1e-5)


def test_a_balanced_subset_has_equally_many_of_every_group():
    _, data = held_out()
    rows = draw_balanced(data.groups, torch.Generator().manual_seed(0))
    assert len(set(rows.tolist())) == len(rows)
    counts = data.groups[rows].bincount()
    assert (counts == data.groups.bincount().min()).all()


def test_dfr_averages_layers_of_balanced_subsets_and_keeps_the_trained_one():
    dfr = make_double("DFR", dfr_subsets=3, dfr_l2=0.1)
    x, data = held_out()
    trained = {n: p.clone() for n, p in dfr.named_parameters()}
    before = dfr.eval().predict(x)
    dfr.before_evaluation(data)
    features = ref.encode(ref.weights_of(dfr), x.numpy())
    scaled = (features - features.mean(axis=0)) / features.std(axis=0, ddof=1)
    generator, logits = torch.Generator().manual_seed(dfr.seed), 0.0
    for _ in range(3):
        rows = draw_balanced(data.groups, generator).numpy()
        slow = LogisticRegression(C=1 / (0.1 * len(rows)), tol=1e-10, max_iter=10_000)
        slow.fit(scaled[rows], data.labels.numpy()[rows])
        logits = logits + slow.decision_function(scaled) / 3
    after = dfr.predict(x).detach()
    np.testing.assert_allclose(torch.softmax(after, dim=1), ref.softmax(logits), atol=1e-4)
    assert not torch.allclose(before, after)
    assert all(torch.equal(p, trained[n]) for n, p in dfr.named_parameters())
    assert torch.allclose(dfr.train().predict(x), before)


def test_afr_minimises_its_weighted_loss_near_the_trained_layer():
    afr = make_double("AFR", afr_gamma=3.0, afr_l2=0.2)
    x, data = held_out()
    afr.eval().before_evaluation(data)
    w, y = ref.weights_of(afr), data.labels.numpy()
    features = ref.encode(w, x.numpy())
    erm = np.c_[w["classifier.weight"], w["classifier.bias"]]
    p = ref.softmax(ref.linear(w, features))
    weights = np.array([np.exp(-3.0 * p[n, y[n]]) / (y == y[n]).sum() for n in range(len(y))])

    def value(layer):
        losses = ref.each_loss(features @ layer[:, :-1].T + layer[:, -1], y)
        return (weights * losses).sum() / weights.sum() + 0.2 * ((layer - erm) ** 2).sum()

    found = np.c_[afr.retrained_weight.numpy(), afr.retrained_bias.numpy()]
    rng = np.random.default_rng(0)
    assert value(found) < value(erm)
    for _ in range(20):  # a convex function: no direction leads lower
        assert value(found) <= value(found + 1e-3 * rng.standard_normal(found.shape)) + 1e-12
