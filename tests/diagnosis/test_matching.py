"""Tables of the matching agree with the matches."""

import numpy as np
import pytest

from equipoise.balance import POOLED, Groups, balanced_frequencies, match_scores
from equipoise.diagnosis.matching import (
    draw_anchors,
    tabulate_distances,
    tabulate_reuse,
    tabulate_use,
    trace_calipers,
    trace_numbers,
)
from tests.diagnosis.worlds import make_case


@pytest.fixture(scope="module")
def case():
    return make_case()


class TestUse:
    def test_counts_agree_with_the_matches(self, case):
        _, _, matches, groups, _ = case
        weights = balanced_frequencies(matches)
        use = tabulate_use(matches, groups, weights)
        assert use["examples"].sum() == len(groups)
        assert use["anchors_without"].sum() == 0
        assert use["ever_matched"].sum() == len(np.unique(matches.indices[matches.indices >= 0]))
        reuse = tabulate_reuse(weights)
        assert reuse["examples"].sum() == len(groups)
        assert reuse["share"].sum() == pytest.approx(1.0)

    def test_distances_of_a_part_are_those_of_the_part(self, case):
        _, _, matches, groups, _ = case
        some = np.arange(0, len(groups), 3)
        table = tabulate_distances(matches, groups, some)
        part = matches.distances[some][:, :, 0][matches.indices[some][:, :, 0] >= 0]
        pooled = table[table["environment"] == POOLED].set_index("quantile")
        assert pooled.loc[1.0, "nearest"] == part.max()
        assert pooled.loc[0.5, "nearest"] == np.quantile(part, 0.5, method="nearest")


class TestCurves:
    def test_more_matches_leave_less_as_the_theorem_says(self, case):
        z, _, matches, groups, _ = case
        curve = trace_numbers(matches, z, groups, anchors=np.arange(len(groups)))
        assert curve["n_matches"].tolist() == [0, 1, 2]
        assert curve["remaining"].tolist() == [1.0, 0.25, 0.0]
        ratio = curve["mean_smd"] / curve["mean_smd"].iloc[0]
        assert ratio.iloc[1] == pytest.approx(0.25, abs=0.15)
        assert ratio.iloc[2] < 0.1

    def test_some_anchors_tell_nearly_what_all_tell(self, case):
        z, _, matches, groups, _ = case
        every, some = (
            trace_numbers(matches, z, groups, anchors=anchors)
            for anchors in (np.arange(len(groups)), np.arange(0, len(groups), 2))
        )
        np.testing.assert_allclose(every["mean_smd"], some["mean_smd"], atol=0.1)
        assert len(draw_anchors(50_000, 0)) == 20_000

    def test_a_caliper_drops_the_far_matches_as_matching_with_it_would(self):
        rng = np.random.default_rng(0)
        n = 600
        labels, sites = rng.integers(2, size=n), rng.integers(2, size=n)
        z = (labels + rng.normal(size=n))[:, None]
        logit = np.stack([-z[:, 0] / 2, z[:, 0] / 2], axis=1)
        scores = logit - np.logaddexp(*logit.T)[:, None]
        groups = Groups(labels, sites, ("a", "b"), ("oslo", "rome"))
        matches = match_scores(scores, labels, sites, n_nearest=1)
        curve = trace_calipers(matches, z, groups, n_matches=1, anchors=np.arange(n))
        assert curve["matched"].iloc[0] == 1.0
        assert (np.diff(curve["matched"]) < 0).all()
        row = curve.iloc[3]
        again = match_scores(scores, labels, sites, n_nearest=1, caliper=row.caliper)
        weights = balanced_frequencies(again)
        assert row.matched == pytest.approx((again.indices >= 0).sum() / n)
        ess = weights.sum() ** 2 / (weights**2).sum() / n
        assert row.effective_size == pytest.approx(ess)
