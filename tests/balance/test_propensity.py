"""Scores of given covariates: cross-fitted, calibrated, of the better of two models."""

import numpy as np
import pandas as pd
import pytest

from equipoise.balance.propensity import Propensity, fit_propensity


def draw(n=3_000, seed=0, n_environments=2, steepness=1.5):
    """Two covariates, of which x has a label-dependent mean; environments differ in p(y)."""
    rng = np.random.default_rng(seed)
    environments = rng.integers(0, n_environments, n)
    x, noise = rng.normal(size=(2, n))
    logit = steepness * x + environments - 0.5
    labels = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return pd.DataFrame({"x": x, "noise": noise}), labels, environments, logit


def test_a_linear_truth_is_recovered_by_the_logistic_model():
    table, labels, environments, logit = draw(8_000)
    made = fit_propensity(table, labels, environments, seed=0)
    assert made.model == "logistic"
    found = made.log_scores[:, 1] - made.log_scores[:, 0]
    assert np.abs(found - logit).mean() < 0.15
    np.testing.assert_allclose(np.exp(made.log_scores).sum(axis=1), 1.0)


def test_trees_are_chosen_where_they_predict_better():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4_000, 2))
    labels = ((x[:, 0] > 0) ^ (x[:, 1] > 0) ^ (rng.random(4_000) < 0.1)).astype(int)
    made = fit_propensity(x, labels, seed=0)
    assert made.model == "trees"
    assert made.log_losses["trees"] < made.log_losses["logistic"] - 0.1


def test_environments_with_other_coefficients_are_fitted_apart():
    rng = np.random.default_rng(2)
    x, environments = rng.normal(size=4_000), rng.integers(0, 2, 4_000)
    sign = np.where(environments == 0, 2.0, -2.0)
    labels = (rng.random(4_000) < 1 / (1 + np.exp(-sign * x))).astype(int)
    made = fit_propensity(x, labels, environments, seed=0)
    assert made.log_losses["logistic by environment"] < made.log_losses["logistic"] - 0.1
    assert made.model != "logistic"


def test_the_scores_are_of_models_that_did_not_see_the_example():
    """Labels without any relation to the covariates must not be predicted by their scores."""
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(300, 30)), rng.integers(0, 2, 300)
    own = fit_propensity(x, labels, seed=0, model="trees").log_scores[np.arange(300), labels]
    assert own.mean() < np.log(0.5) + 0.01


@pytest.mark.parametrize("model", ["logistic", "trees"])
def test_mean_scores_are_the_label_shares_of_each_environment(model):
    table, labels, environments, _ = draw()
    made = fit_propensity(table, labels, environments, seed=0, model=model)
    for environment in (0, 1):
        here = environments == environment
        share = np.exp(made.log_scores[here, 1]).mean()
        assert share == pytest.approx(labels[here].mean(), abs=2e-3)


@pytest.mark.parametrize("model", ["logistic", "logistic by environment", "trees"])
def test_a_stored_model_scores_as_the_fitted_one(model, tmp_path):
    table, labels, environments, _ = draw(600)
    table["site"] = np.where(table.x > 1, "far", "near")
    made = fit_propensity(table, labels, environments, seed=0, model=model)
    np.savez(tmp_path / "scores.npz", **made.state())
    with np.load(tmp_path / "scores.npz", allow_pickle=False) as arrays:
        again = Propensity.from_state(dict(arrays))
    expected = made.score(table, environments)
    np.testing.assert_allclose(again.score(table, environments), expected, rtol=1e-12)
    assert again.log_losses == made.log_losses


def test_the_same_seed_gives_the_same_scores():
    table, labels, environments, _ = draw(500)
    first, second = (fit_propensity(table, labels, environments, seed=7) for _ in range(2))
    np.testing.assert_array_equal(first.log_scores, second.log_scores)


def test_a_label_that_an_environment_lacks_has_no_probability_there():
    rng = np.random.default_rng(5)
    environments = np.repeat([3, 8], 200)
    labels = np.where(environments == 3, rng.integers(0, 2, 400), rng.integers(1, 3, 400))
    made = fit_propensity(rng.normal(size=(400, 2)), labels, environments, seed=0)
    assert np.isneginf(made.log_scores[:200, 2]).all()
    assert np.isneginf(made.log_scores[200:, 0]).all()
    assert np.isfinite(made.log_scores[np.arange(400), labels]).all()


def test_a_label_with_one_example_is_scored_and_counted():
    rng = np.random.default_rng(6)
    labels = np.append(rng.integers(0, 2, 100), 2)
    made = fit_propensity(rng.normal(size=(101, 2)), labels, seed=0)
    assert np.isfinite(made.log_scores).all()
    assert any("1 labels with one example" in note for note in made.notes)


def test_a_covariate_that_predicts_the_label_is_warned_of():
    table, labels, environments, _ = draw(400)
    table["diagnosis"] = np.where(labels == 1, "yes", "no")
    with pytest.warns(UserWarning, match="'diagnosis' is a function of the label"):
        made = fit_propensity(table, labels, environments, seed=0)
    assert len(made.leaks) == 1


def test_further_examples_must_be_of_known_environments():
    table, labels, environments, _ = draw(200)
    made = fit_propensity(table, labels, environments, seed=0, model="logistic")
    with pytest.raises(ValueError, match="environment 5 was not fitted; known: 0, 1"):
        made.score(table, np.full(200, 5))
    with pytest.raises(ValueError, match="fitted on 2 environments"):
        made.score(table)


def test_misaligned_rows_and_unknown_models_are_refused():
    table, labels, environments, _ = draw(50)
    with pytest.raises(ValueError, match="covariates have 49 rows, labels 50"):
        fit_propensity(table[:49], labels, environments, seed=0)
    with pytest.raises(ValueError, match="unknown model 'forest'"):
        fit_propensity(table, labels, environments, seed=0, model="forest")
