"""Weights of matching, overlap and entropy: exact balance, a plain optimiser, no solution."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize
from sklearn.linear_model import LogisticRegression

from equipoise.balance import (
    BalancedBatchSampler,
    Matches,
    balanced_frequencies,
    effective_sample_size,
    match_scores,
)
from equipoise.balance.weights import entropy_weights, overlap_weights
from equipoise.diagnosis import mutual_information, same_covariate_rate, standardized_differences


@pytest.mark.parametrize("n_matches", [1, 2])
def test_frequencies_are_what_many_epochs_show(n_matches):
    rng = np.random.default_rng(0)
    n = 60
    labels = rng.integers(3, size=n)
    environments = np.zeros(n, dtype=int)
    scores = np.log(rng.dirichlet(np.ones(3), size=n))
    matches = match_scores(scores, labels, environments, n_nearest=4, tolerance=0.05)
    sampler = BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=n, n_matches=n_matches
    )
    counts = np.zeros(n)
    for epoch in range(1500):
        sampler.set_epoch(epoch)
        for batch in sampler:
            counts += np.bincount(batch, minlength=n)
    expected = balanced_frequencies(matches, n_matches)
    assert expected.sum() == pytest.approx(n * (1 + n_matches))
    error = np.abs(counts / 1500 - expected)
    assert (error < 5 * np.sqrt(np.maximum(expected, 0.05) / 1500)).all()


def test_complete_balancing_gives_every_label_the_same_weight():
    rng = np.random.default_rng(1)
    labels = rng.choice(3, p=[0.7, 0.2, 0.1], size=200)
    scores = np.log(rng.dirichlet(np.ones(3), size=200))
    weights = balanced_frequencies(match_scores(scores, labels, n_nearest=3))
    np.testing.assert_allclose(np.bincount(labels, weights=weights), 200.0)


def test_effective_sample_size_of_equal_weights_is_their_number():
    assert effective_sample_size(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_sample_size(np.array([1.0, 0.0, 0.0])) == 1


def test_near_ties_keep_the_nearest_whatever_its_distance():
    scores, labels = np.log([[0.9, 0.1], [0.2, 0.8], [0.1, 0.9]]), [0, 1, 1]
    kept = match_scores(scores, labels, n_nearest=2, tolerance=0.1)
    assert kept.indices[0].tolist() == [[-1, -1], [1, -1]]
    with pytest.raises(ValueError, match="tolerance"):
        match_scores(scores, labels, tolerance=-1.0)


def test_mutual_information_of_a_copy_is_its_entropy_and_of_independence_zero():
    assert mutual_information(np.eye(4)) == pytest.approx(np.log(4))
    assert mutual_information(np.outer([1, 2, 3], [4, 5])) == pytest.approx(0, abs=1e-12)


def test_same_covariate_rate_is_that_of_the_matches_a_batch_draws():
    found = Matches(np.array([[[1, 2]], [[0, -1]], [[-1, -1]]]), np.zeros((3, 1, 2)), "kl")
    assert same_covariate_rate(found, [5, 5, 6]) == pytest.approx((0.5 + 1.0) / 2)


def test_standardized_differences_use_the_unweighted_deviation():
    x = np.array([[0.0], [1.0], [2.0], [3.0]])
    labels, environments = np.array([0, 0, 1, 1]), np.zeros(4, dtype=int)
    plain = standardized_differences(x, labels, environments)
    np.testing.assert_allclose(plain, [[2.0 / x.std()]])
    weighted = standardized_differences(x, labels, environments, np.array([0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(weighted, [[1.0 / x.std()]])


def draw(n=400, m=3, p=2, seed=0, n_environments=2):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(0, m, n), rng.integers(0, n_environments, n)
    centers = rng.normal(scale=0.6, size=(n_environments, m, p))
    return rng.normal(size=(n, p)) + centers[environments, labels], labels, environments


def group_means(values, labels, weights):
    return np.array(
        [np.average(values[labels == y], axis=0, weights=weights[labels == y]) for y in (0, 1)]
    )


def test_overlap_weights_balance_the_means_of_a_logistic_score_exactly():
    x, labels, _ = draw(m=2)
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=5_000).fit(x, labels)
    made = overlap_weights(model.predict_log_proba(x), labels)
    means = group_means(x, labels, made.values)
    np.testing.assert_allclose(means[0], means[1], atol=1e-6)


def test_overlap_weights_of_two_labels_are_the_other_probability():
    prob = np.array([0.1, 0.4, 0.7, 0.9])
    scores = np.log(np.column_stack([1 - prob, prob]))
    labels = np.array([0, 0, 1, 1])
    values = overlap_weights(scores, labels).values
    raw = np.array([0.1, 0.4, 0.3, 0.1])
    for y in (0, 1):
        mine = labels == y
        np.testing.assert_allclose(values[mine], raw[mine] / raw[mine].sum() * 2)


def test_overlap_weights_with_the_true_score_make_the_label_independent():
    rng = np.random.default_rng(1)
    colour = rng.integers(0, 4, 60_000)
    table = rng.dirichlet(np.ones(3), size=4)
    labels = (rng.random(60_000)[:, None] > table[colour].cumsum(axis=1)).sum(axis=1)
    made = overlap_weights(np.log(table[colour]), labels)
    joint = np.zeros((4, 3))
    np.add.at(joint, (colour, labels), made.values)
    shares = joint / joint.sum(axis=0)
    assert np.abs(shares - shares.mean(axis=1, keepdims=True)).max() < 0.02


def test_a_target_label_keeps_equal_weights_and_the_others_take_its_distribution():
    x, labels, _ = draw(n=5_000, m=2, n_environments=1, seed=3)
    model = LogisticRegression(C=np.inf).fit(x, labels)
    made = overlap_weights(model.predict_log_proba(x), labels, target=1).values
    assert np.ptp(made[labels == 1]) < 1e-12
    other = np.average(x[labels == 0], axis=0, weights=made[labels == 0])
    np.testing.assert_allclose(other, x[labels == 1].mean(axis=0), atol=0.1)


def test_an_example_without_overlap_has_no_weight():
    scores = np.log([[0.5, 0.5], [1.0, 1e-320], [0.4, 0.6], [0.5, 0.5]])
    scores[1] = [0.0, -np.inf]
    assert overlap_weights(scores, [0, 0, 1, 1]).values[1] == 0.0


@pytest.mark.parametrize("target", [None, 1])
def test_entropy_weights_balance_means_squares_and_interactions_exactly(target):
    x, labels, environments = draw()
    table = pd.DataFrame(x, columns=["a", "b"])
    table["site"] = np.where(x[:, 0] + x[:, 1] > 0, "up", "down")
    made = entropy_weights(
        table, labels, environments, moments=("means", "squares", ("a", "b")), target=target
    )
    up = (table.site == "up").to_numpy(float)
    f = np.column_stack([x, x**2, x[:, 0] * x[:, 1], up])
    for e in (0, 1):
        here = environments == e
        goal = f[here if target is None else here & (labels == target)].mean(axis=0)
        for y in range(3):
            mine = here & (labels == y)
            found = np.average(f[mine], axis=0, weights=made.values[mine])
            np.testing.assert_allclose(found, goal, atol=1e-8)
            assert made.values[mine].sum() == pytest.approx(here.sum() / 3)
    assert made.values.mean() == pytest.approx(1.0)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(30, 60), q=st.integers(1, 3))
def test_entropy_weights_equal_those_of_a_plain_optimiser(seed, n, q):
    """Greatest entropy over the weights themselves, by SLSQP, on random cases."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, q))
    labels = np.repeat([0, 1], [n - 10, 10])
    x[:10] *= 3  # so that the target is within reach
    goal = x[labels == 1].mean(axis=0)
    mine = x[labels == 0]
    reach = np.vstack([mine.T, np.ones(len(mine))])
    assume(linprog(np.zeros(len(mine)), A_eq=reach, b_eq=np.append(goal, 1.0)).success)
    made = entropy_weights(x, labels, moments=["means"], target=1)
    plain = minimize(
        lambda w: float((w * np.log(np.maximum(w, 1e-300))).sum()),
        np.full(len(mine), 1 / len(mine)),
        jac=lambda w: np.log(np.maximum(w, 1e-300)) + 1,
        bounds=[(0, 1)] * len(mine),
        constraints=[
            {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(len(w))},
            {"type": "eq", "fun": lambda w: mine.T @ w - goal, "jac": lambda w: mine.T},
        ],
        options={"maxiter": 1_000, "ftol": 1e-15},
    )
    ours = made.values[labels == 0] / made.values[labels == 0].sum()
    reached = np.abs(mine.T @ plain.x - goal).max() < 1e-9 and plain.success
    if reached:
        np.testing.assert_allclose(ours, plain.x, atol=1e-6)
    assert float((ours * np.log(ours)).sum()) <= plain.fun + 1e-9 or not reached


def test_a_target_out_of_reach_names_the_moment_and_the_label():
    table = pd.DataFrame({"age": [20.0, 30.0, 50.0, 60.0], "dose": [1.0, 2.0, 1.0, 2.0]})
    with pytest.raises(ValueError, match="the mean of age for label 1"):
        entropy_weights(table, [0, 0, 1, 1], target=0, moments=["means"])
    with pytest.raises(ValueError, match="for label 1 in environment 4"):
        entropy_weights(table, [0, 0, 1, 1], [4] * 4, target=0, moments=["means"])


def test_moments_that_are_within_reach_alone_but_not_together_are_named():
    """Label 1 lies on the line a = b, the target of label 0 does not."""
    x = np.array([[0.2, 0.8], [0.3, 0.7], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5]])
    table = pd.DataFrame(x, columns=["a", "b"])
    with pytest.raises(ValueError, match=r"the mean of [ab] for label 1 together with"):
        entropy_weights(table, [0, 0, 1, 1, 1], target=0, moments=["means"])


def test_examples_with_a_category_that_the_target_lacks_have_no_weight():
    table = pd.DataFrame({"site": list("aabbaabbc")})
    made = entropy_weights(table, [1, 1, 1, 1, 0, 0, 0, 0, 0], target=1)
    assert made.values[-1] == 0.0
    assert "1 examples of label 0 have weight 0" in made.notes[0]
    assert np.ptp(made.values[:-1]) < 1e-9


def test_an_environment_without_the_target_label_has_no_weight_and_is_counted():
    labels, environments = np.array([0, 1, 0, 1, 0, 2]), np.array([0, 0, 0, 0, 1, 1])
    made = overlap_weights(np.log(np.full((6, 3), 1 / 3)), labels, environments, target=1)
    assert made.values[4:].tolist() == [0.0, 0.0]
    assert "its 2 examples have weight 0" in made.notes[0]


def test_effective_sample_size_and_largest_weight_are_told():
    made = overlap_weights(np.log(np.full((4, 2), 0.5)), [0, 0, 0, 1])
    assert made.largest == pytest.approx(2.0)
    assert made.effective_sample_size == pytest.approx(16 / (3 * (2 / 3) ** 2 + 4))
    assert "effective sample size 3.0" in repr(made)
    assert np.asarray(made).shape == (4,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 7}, "target must be a label that occurs"),
        ({"moments": ["cubes"]}, "got 'cubes'"),
        ({"moments": []}, "moments is empty"),
        ({"moments": [("a", "income")]}, "pairs of covariates out of 'a'"),
    ],
)
def test_wrong_settings_are_refused(arguments, message):
    table = pd.DataFrame({"a": [1.0, 2.0, 1.5, 2.5]})
    with pytest.raises(ValueError, match=message):
        entropy_weights(table, [0, 1, 0, 1], **arguments)
