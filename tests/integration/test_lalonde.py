"""LaLonde's job training: known covariates balanced against an experiment's answer."""

import warnings

import numpy as np
import pandas as pd
import pytest

from equipoise.balance import (
    entropy_weights,
    fit_propensity,
    keep_closest,
    match_scores,
    overlap_weights,
)

EXPERIMENT = 1794
NAMES = ["age", "educ", "black", "hisp", "marr", "nodegree", "re74", "re75"]


@pytest.fixture(scope="module")
def people():
    try:
        from causaldata import cps_mixtape, nsw_mixtape
    except ImportError:
        warnings.warn("LaLonde is not tested: pip install causaldata", stacklevel=1)
        pytest.skip("LaLonde is not tested: pip install causaldata")
    experiment = nsw_mixtape.load_pandas().data
    means = experiment.groupby("treat")["re78"].mean()
    assert round(means[1] - means[0]) == EXPERIMENT
    survey = cps_mixtape.load_pandas().data
    return pd.concat([experiment[experiment["treat"] == 1], survey], ignore_index=True)


def judge(people, weights):
    """The largest standardised difference between the groups, and the weighted effect."""
    treated = people["treat"].to_numpy() == 1
    means, effects = [], []
    for group in (treated, ~treated):
        rows, part = people[group], weights[group]
        means.append(np.average(rows[NAMES].astype(float), axis=0, weights=part))
        effects.append(np.average(rows["re78"], weights=part))
    scale = people.loc[treated, NAMES].astype(float).std().to_numpy()
    return np.abs((means[0] - means[1]) / scale).max(), effects[0] - effects[1]


def split(people):
    return people[NAMES].astype(float), people["treat"].to_numpy().astype(int)


def test_the_groups_differ_before(people):
    worst, effect = judge(people, np.ones(len(people)))
    assert worst > 1
    assert effect < -8_000


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_matches_of_the_treated_give_the_experiments_answer(people, seed):
    covariates, treated = split(people)
    scores = fit_propensity(covariates, treated, seed=seed).log_scores
    found = match_scores(scores, treated, n_nearest=100)
    found = keep_closest(found, covariates, treated, n_nearest=2)
    weights = (treated == 1).astype(float)
    np.add.at(weights, found.indices[treated == 1, 0].ravel(), 0.5)
    worst, effect = judge(people, weights)
    assert worst < 0.1
    assert abs(effect - EXPERIMENT) < 1_000


def test_matches_that_agree_exactly_in_race_and_marriage_do(people):
    covariates, treated = split(people)
    scores = fit_propensity(covariates, treated, seed=0).log_scores
    exact = (covariates["black"] * 2 + covariates["marr"]).astype(int).to_numpy()
    found = match_scores(scores, treated, n_nearest=5, exact=exact)
    rows = np.flatnonzero(treated == 1)
    assert (exact[found.indices[rows, 0]] == exact[rows, None]).all()


def test_overlap_weights_balance_the_groups(people):
    covariates, treated = split(people)
    scores = fit_propensity(covariates, treated, seed=0).log_scores
    worst, effect = judge(people, overlap_weights(scores, treated).values)
    assert worst < 0.1
    assert 0 < effect < 2_800


def test_entropy_weights_balance_exactly_and_give_the_experiments_answer(people):
    covariates, treated = split(people)
    made = entropy_weights(covariates, treated, target=1)
    worst, effect = judge(people, made.values)
    assert worst < 1e-8
    assert abs(effect - EXPERIMENT) < 1_000
    assert 250 < made.effective_sample_size < len(people)
