"""Age and scanner are given: every method removes what they tell about the label."""

import numpy as np
import pandas as pd
import pytest

from equipoise.balance import (
    balanced_frequencies,
    entropy_weights,
    find_matches,
    fit_propensity,
    overlap_weights,
)
from equipoise.diagnosis import mutual_information


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    n = 12_000
    hospital = rng.integers(0, 2, n)
    age, scanner = rng.normal(60, 10, n), rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2])
    steepness = np.where(hospital == 0, 1.0, 0.5)
    logit = steepness * (age - 60) / 10 + steepness * np.select(
        [scanner == "A", scanner == "B"], [1, -1]
    )
    ill = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)
    return pd.DataFrame({"age": age, "scanner": scanner}), ill, hospital


def told_about(values, labels, weights):
    """Mutual information of the label and a covariate under weights, numbers in tenths."""
    if values.dtype.kind == "f":
        values = pd.qcut(values, 10, labels=False)
    codes = pd.factorize(values)[0]
    table = np.zeros((codes.max() + 1, 2))
    np.add.at(table, (codes, labels), weights)
    return mutual_information(table)


def weigh(method, known, ill, hospital):
    if method == "entropy":
        return entropy_weights(known, ill, hospital).values
    scores = fit_propensity(known, ill, hospital, seed=0).log_scores
    if method == "overlap":
        return overlap_weights(scores, ill, hospital).values
    return balanced_frequencies(find_matches(scores, ill, hospital, n_nearest=40, tolerance=0.01))


@pytest.mark.parametrize("method", ["match", "overlap", "entropy"])
def test_every_method_removes_95_percent_of_the_information(patients, method):
    known, ill, hospital = patients
    weights = weigh(method, known, ill, hospital)
    for name in known:
        before = told_about(known[name], ill, np.ones(len(ill)))
        after = told_about(known[name], ill, weights)
        assert before > 0.03, name
        assert after < 0.05 * before, (name, before, after)
