"""The balance table says what a plain computation would, in the conventions people know."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from equipoise.balance.groups import POOLED, Groups
from equipoise.diagnosis.covariates import Covariate, list_covariates, read_known
from equipoise.diagnosis.tables import find_worst_pairs, measure_overlap, tabulate_balance


def make_groups(n=400, n_labels=3, n_environments=2, seed=0):
    rng = np.random.default_rng(seed)
    labels, sites = rng.integers(n_labels, size=n), rng.integers(n_environments, size=n)
    names = tuple(f"label {i}" for i in range(n_labels))
    return Groups(labels, sites, names, tuple(f"site {i}" for i in range(n_environments)))


def pick(table, environment, first, second):
    rows = table[
        (table["environment"] == environment)
        & (table["first"] == first)
        & (table["second"] == second)
    ]
    assert len(rows) == 1
    return rows.iloc[0]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_every_number_is_that_of_the_plain_definition(seed):
    rng = np.random.default_rng(seed)
    groups = make_groups(seed=seed)
    x, w = rng.normal(size=400) + groups.labels, rng.uniform(1, 5, size=400)
    table = tabulate_balance([Covariate("x", "known", x)], groups, w)
    for place, here in (("site 1", groups.environments == 1), (POOLED, np.ones(400, dtype=bool))):
        row = pick(table, place, "label 0", "label 2")
        members = [here & (groups.labels == label) for label in range(3)]
        variances = [x[some].var() for some in members]
        a, _, b = members
        scale = np.sqrt(np.mean(variances))
        assert row.smd_before == pytest.approx(abs(x[a].mean() - x[b].mean()) / scale)
        means = [np.average(x[some], weights=w[some]) for some in (a, b)]
        assert row.smd_after == pytest.approx(abs(means[0] - means[1]) / scale)
        after = [
            np.average((x[some] - mean) ** 2, weights=w[some])
            for some, mean in zip((a, b), means, strict=True)
        ]
        assert row.variance_ratio_before == pytest.approx(
            max(variances[0], variances[2]) / min(variances[0], variances[2])
        )
        assert row.variance_ratio_after == pytest.approx(max(after) / min(after))
        assert row.ks_before == pytest.approx(ks_2samp(x[a], x[b]).statistic)


def test_a_weight_of_two_counts_as_two_examples():
    groups = make_groups()
    x = np.random.default_rng(1).normal(size=400)
    twice = np.arange(400) < 200
    weighted = tabulate_balance([Covariate("x", "z", x)], groups, 1.0 + twice)
    rows = np.concatenate([np.arange(400), np.flatnonzero(twice)])
    doubled = Groups(
        groups.labels[rows], groups.environments[rows], groups.label_names, groups.environment_names
    )
    counted = tabulate_balance([Covariate("x", "z", x[rows])], doubled, np.ones(len(rows)))
    for name in ("variance_ratio", "ks"):
        np.testing.assert_allclose(weighted[f"{name}_after"], counted[f"{name}_before"])


def test_the_denominator_stays_that_of_the_unmatched_data():
    """Weights that leave one value in each label would have no spread of their own."""
    groups = Groups(np.array([0, 0, 1, 1]), np.zeros(4, dtype=int), ("a", "b"), ("site",))
    x = np.array([0.0, 2.0, 1.0, 3.0])
    table = tabulate_balance([Covariate("x", "z", x)], groups, np.array([1.0, 1e-12, 1.0, 1e-12]))
    assert table["smd_before"].tolist() == [1.0, 1.0]
    assert table["smd_after"].to_numpy() == pytest.approx([1.0, 1.0])


def test_distributions_of_many_values_are_compared_closely_enough():
    rng = np.random.default_rng(0)
    n = 20_000
    groups = Groups(rng.integers(2, size=n), np.zeros(n, dtype=int), ("a", "b"), ("site",))
    x = rng.exponential(size=n) * (1 + 0.3 * groups.labels)
    table = tabulate_balance([Covariate("x", "z", x)], groups, np.ones(n))
    exact = ks_2samp(x[groups.labels == 0], x[groups.labels == 1]).statistic
    assert table["ks_before"].iloc[0] == pytest.approx(exact, abs=2e-3)
    assert table["ks_after"].iloc[0] == table["ks_before"].iloc[0]


def test_labels_that_an_environment_lacks_are_left_out_of_it():
    labels, sites = np.array([0, 0, 1, 1, 2, 0]), np.array([0, 0, 0, 1, 1, 1])
    groups = Groups(labels, sites, ("a", "b", "c"), ("one", "two"))
    table = tabulate_balance([Covariate("x", "z", np.arange(6.0))], groups, np.ones(6))
    pairs = table.groupby("environment", observed=True).size()
    assert pairs.to_dict() == {"one": 1, "two": 3, POOLED: 3}


def test_what_differs_though_nothing_varies_within_a_label_is_not_called_balanced():
    groups = Groups(np.array([0, 0, 1, 1]), np.zeros(4, dtype=int), ("a", "b"), ("site",))
    apart = Covariate("apart", "z", np.array([0.0, 0.0, 5.0, 5.0]))
    same = Covariate("same", "z", np.full(4, 3.0))
    table = tabulate_balance([apart, same], groups, np.ones(4))
    smd = table.set_index(["covariate", "environment"])["smd_before"]
    assert smd["apart", "site"] == 2.0
    assert smd["same", "site"] == 0.0


def test_rounding_is_taken_neither_for_a_spread_nor_for_a_difference():
    """In one environment a column is the same for both labels but for the last digit."""
    groups = make_groups(n_labels=2)
    rng = np.random.default_rng(0)
    here = groups.environments == 1
    x = np.where(here, 0.1 + 1e-15 * rng.normal(size=400), rng.normal(size=400))
    x = np.where(here & (groups.labels == 1), 0.1, x)
    row = pick(tabulate_balance([Covariate("x", "known", x)], groups, np.ones(400)), "site 1",
               "label 0", "label 1")  # fmt: skip
    assert row["variance_ratio_before"] == 1.0
    assert row["smd_before"] < 1e-6


def test_large_numbers_keep_their_differences():
    groups = make_groups(n_labels=2)
    x = np.random.default_rng(2).normal(size=400) + groups.labels
    plain, moved = (
        tabulate_balance([Covariate("x", "z", values)], groups, np.ones(400))
        for values in (x, x + 1.7e9)
    )
    numbers = ["smd_before", "variance_ratio_before"]
    np.testing.assert_allclose(plain[numbers], moved[numbers], rtol=1e-4)


def test_the_worst_pair_is_named_before_and_after():
    groups = Groups(np.array([0, 0, 1, 1, 2, 2]), np.zeros(6, dtype=int), tuple("abc"), ("site",))
    x = np.array([0.0, 1.0, 0.0, 1.0, 3.0, 4.0])
    weights = np.array([1.0, 100.0, 100.0, 1.0, 1.0, 1.0])
    worst = find_worst_pairs(tabulate_balance([Covariate("x", "z", x)], groups, weights))
    row = worst[worst["environment"] == "site"].iloc[0]
    assert row.smd_before == 6.0
    assert row.pair_before in ("a – c", "b – c")
    assert row.pair_after == "b – c"
    assert row.mean_smd_before == pytest.approx((0 + 6 + 6) / 3)


def test_squares_and_products_are_about_spread_and_correlation_not_the_mean():
    rng = np.random.default_rng(0)
    groups = make_groups(n=20_000, n_labels=2, n_environments=1)
    z = rng.normal(size=(20_000, 2)) + 100.0
    z[:, 1] += np.where(groups.labels == 1, 0.9, -0.9) * (z[:, 0] - 100)  # correlation differs
    found = {
        c.name: tabulate_balance([c], groups, np.ones(len(groups)))["smd_before"].iloc[0]
        for c in list_covariates(z, np.full((20_000, 2), 0.5), [], [], ("a", "b"))
    }
    assert set(found) == {"z1", "z2", "z1²", "z2²", "z1·z2", "score of b"}
    assert found["z1"] < 0.05
    assert found["z1²"] < 0.05
    assert found["z1·z2"] > 0.5


class TestKnownCovariates:
    def test_few_values_are_categories_and_many_numbers_a_number(self):
        frame = pd.DataFrame(
            {"colour": ["red", "blue"] * 50, "flag": [True, False] * 50, "age": np.arange(100.0)}
        )
        colour, flag, age = read_known(frame, 100)
        assert colour.names == ("blue", "red")
        assert colour.values is None
        assert flag.names == ("False", "True")
        assert age.values is not None
        assert np.bincount(age.codes).max() - np.bincount(age.codes).min() <= 1

    def test_rare_ones_of_many_categories_stand_together(self):
        (names,) = read_known({"name": [f"n{i}" for i in range(100)]}, 100)
        assert len(names.names) == 20
        assert "(other)" in names.names

    def test_a_wrong_length_or_a_missing_value_is_named(self):
        with pytest.raises(ValueError, match=r"'colour' must have one value for each of the 3"):
            read_known({"colour": ["red"]}, 3)
        with pytest.raises(ValueError, match="'colour' has missing values"):
            read_known({"colour": ["red", None, "red"]}, 3)


class TestOverlap:
    def test_it_is_the_shared_area_and_support_the_shared_range(self):
        p = np.array([0.9, 0.7, 0.5, 0.5, 0.3, 0.1])
        scores = np.log(np.stack([p, 1 - p], axis=1))
        groups = Groups(np.array([0, 0, 0, 1, 1, 1]), np.zeros(6, dtype=int), ("a", "b"), ("site",))
        found, _ = measure_overlap(scores, groups, np.ones(6), np.array([0]), np.array([1]))
        row = found.iloc[0]
        assert row.overlap_before == pytest.approx(1 / 3)
        assert row.first_in_support == pytest.approx(1 / 3)

    def test_scores_of_zero_probability_are_no_obstacle(self):
        with np.errstate(divide="ignore"):
            scores = np.log(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
        groups = Groups(np.arange(3), np.zeros(3, dtype=int), tuple("abc"), ("site",))
        table, _ = measure_overlap(scores, groups, np.ones(3), *groups.pairs())
        assert (table["overlap_before"] == 0).all()
