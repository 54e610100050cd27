"""Information about the label is near the truth, and none is invented."""

import numpy as np
import pytest

from equipoise.balance import POOLED, Groups, balanced_frequencies
from equipoise.diagnosis.information import estimate_information, tabulate_information
from tests.diagnosis.worlds import make_case, trim


class TestInformation:
    def test_it_comes_near_the_true_value_and_never_invents_any(self):
        rng = np.random.default_rng(0)
        labels = rng.integers(3, size=20_000)
        codes = np.where(rng.random(20_000) < 0.7, labels, rng.integers(3, size=20_000))
        joint = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
        truth = float((joint / 3 * np.log(joint * 3)).sum())
        assert estimate_information(codes, labels, np.ones(20_000)) == pytest.approx(
            truth, abs=0.02
        )
        for n in (100, 1000):
            noise = rng.integers(30, size=n), rng.integers(10, size=n)
            assert estimate_information(*noise, rng.exponential(size=n) + 0.1) < 0.05

    def test_weights_that_balance_take_it_to_nothing(self):
        z, scores, matches, groups, _ = make_case()
        weights = balanced_frequencies(matches)
        table = tabulate_information(z, np.exp(scores), [], groups, weights, seed=0)
        pooled = table[table["environment"] == POOLED].set_index("variable")
        for variable in ("z", "score"):
            assert pooled.loc[variable, "before"] > 0.3
            assert pooled.loc[variable, "after"] < 0.02

    def test_the_whole_of_z_tells_what_no_coordinate_does(self):
        rng = np.random.default_rng(0)
        z = rng.normal(size=(4000, 2))
        labels = (z[:, 0] * z[:, 1] > 0).astype(int)
        groups = Groups(labels, np.zeros(4000, dtype=int), ("a", "b"), ("site",))
        table = tabulate_information(
            z, np.full((4000, 2), 0.5), [], groups, np.ones(4000), seed=0
        ).set_index(["environment", "variable"])
        assert table.loc[("site", "z1"), "before"] < 0.01
        assert table.loc[("site", "z"), "before"] > 0.5

    def test_examples_without_a_match_in_a_large_environment_are_not_what_is_looked_at(self):
        """Of 12,000 examples 10,000 are looked at, but of 200 that are left all 200."""
        z, scores, matches, groups, _ = make_case(n=24_000, m=2)
        kept = np.zeros(len(groups), dtype=bool)
        kept[::120] = True
        weights = balanced_frequencies(trim(matches, kept))
        found = tabulate_information(z, np.exp(scores), [], groups, kept * 1.0, seed=0)
        assert (weights > 0).sum() <= 200
        assert found.query("variable == 'z'")["after"].min() > 0.1
