"""JTT, LfF, EIIL, DFR and AFR against slow references."""

from itertools import product

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from equipoise.algorithms import HeldOut
from equipoise.algorithms.dfr import draw_balanced, fit_linear
from equipoise.algorithms.risks import scale_slopes

from . import reference as ref
from .tiny import make_double, tiny_batches


def join(batches):
    x = np.concatenate([part for part, _ in ref.arrays(batches)])
    return x, np.concatenate([part for _, part in ref.arrays(batches)])


def second_model(w, prefix, x):
    return ref.linear(w, ref.encode(w, x, f"{prefix}.0.layer"), f"{prefix}.1")


def each_loss(logits, y):
    return -np.log(ref.softmax(logits)[np.arange(len(y)), y])


def step_of(algorithm, batches):
    """The gradient that the algorithm takes in its next step."""
    steps = ref.record_steps(algorithm)
    algorithm.update(batches)
    (step,) = steps
    return step


def test_jtt_first_trains_one_model_then_upweighs_what_it_gets_wrong():
    jtt = make_double("JTT", jtt_identification_steps=1, jtt_upweight=7.0)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    first = step_of(jtt, batches)
    assert first.modules == {"first_model"}
    first.assert_matches(lambda w: ref.cross_entropy(second_model(w, "first_model", x), y))

    weights = np.ones(len(y))
    w0 = ref.weights_of(jtt)
    for n, logits in enumerate(second_model(w0, "first_model", x)):
        if np.argmax(logits) != y[n]:
            weights[n] = 7.0
    assert 1 < (weights > 1).sum() < len(y)

    second = step_of(jtt, batches)
    assert second.modules == {"featurizer", "classifier"}
    second.assert_matches(
        lambda w: float((weights * each_loss(ref.predict(w, x), y)).sum() / weights.sum())
    )


def test_lff_weighs_by_relative_difficulty_and_trains_the_biased_model_on_what_is_easy():
    lff = make_double("LfF", lff_q=0.6)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    w0 = ref.weights_of(lff)
    biased, own = (
        each_loss(logits, y) for logits in (second_model(w0, "biased_model", x), ref.predict(w0, x))
    )
    weights = np.empty(len(y))
    for n, label in enumerate(y):
        b, d = (losses[n] / losses[y == label].max() for losses in (biased, own))
        weights[n] = b / (b + d)

    def expected(w):
        p = ref.softmax(second_model(w, "biased_model", x))[np.arange(len(y)), y]
        generalised = np.mean((1 - p**0.6) / 0.6)
        return float(np.mean(weights * each_loss(ref.predict(w, x), y)) + generalised)

    step_of(lff, batches).assert_matches(expected)


def test_eiil_finds_the_environments_of_the_largest_penalty_among_all():
    eiil = make_double("EIIL", eiil_reference_steps=0)
    batches = tiny_batches((6, 5), dtype=torch.float64)
    x, y = join(batches)
    logits = torch.tensor(second_model(ref.weights_of(eiil), "reference", x))
    slopes = scale_slopes(logits, torch.tensor(y)).numpy()

    def penalty(q):
        q = np.array(q)
        return np.mean(q * slopes) ** 2 + np.mean((1 - q) * slopes) ** 2

    best = max(product((0, 1), repeat=len(y)), key=penalty)
    found = eiil.infer_environments(batches, torch.tensor(y)).numpy()
    assert penalty(found) == pytest.approx(penalty(best))
    assert 0 < found.sum() < len(y)


def test_eiil_weighs_groups_of_label_and_inferred_environment_as_groupdro():
    eiil = make_double("EIIL", eiil_reference_steps=0, groupdro_eta=0.5)
    batches = tiny_batches(dtype=torch.float64)
    x, y = join(batches)
    inferred = eiil.infer_environments(batches, torch.tensor(y)).numpy()
    q = dict.fromkeys(range(6), 1 / 6)

    def means(w):
        losses = each_loss(ref.predict(w, x), y)
        groups = 2 * y + inferred
        return {g: losses[groups == g].mean() for g in np.unique(groups)}

    grown = {g: q[g] * np.exp(0.5 * mean) for g, mean in means(ref.weights_of(eiil)).items()}
    total = sum(grown.values())
    step_of(eiil, batches).assert_matches(
        lambda w: float(sum(grown[g] / total * mean for g, mean in means(w).items()))
    )


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
        losses = each_loss(features @ layer[:, :-1].T + layer[:, -1], y)
        return (weights * losses).sum() / weights.sum() + 0.2 * ((layer - erm) ** 2).sum()

    found = np.c_[afr.retrained_weight.numpy(), afr.retrained_bias.numpy()]
    rng = np.random.default_rng(0)
    assert value(found) < value(erm)
    for _ in range(20):  # a convex function: no direction leads lower
        assert value(found) <= value(found + 1e-3 * rng.standard_normal(found.shape)) + 1e-12
