"""The diagnosis finds what was planted, says so in words, and does not see what is not there."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise.balance import (
    POOLED,
    Groups,
    Matches,
    balanced_frequencies,
    keep_near_ties,
    match_covariate,
    match_scores,
)
from equipoise.diagnosis import diagnose_balance, summarise_balance
from equipoise.diagnosis.balance_curves import draw_anchors, trace_calipers, trace_numbers
from equipoise.diagnosis.dependence_of_z import Dependence
from equipoise.diagnosis.findings import tell_after, tell_gain, tell_strength
from equipoise.diagnosis.gain import Gain, estimate_gain
from equipoise.diagnosis.information import estimate_information, tabulate_information
from equipoise.diagnosis.overlap import measure_overlap
from equipoise.diagnosis.strength import Variation
from equipoise.diagnosis.usage import tabulate_distances, tabulate_reuse, tabulate_use
from equipoise.diagnosis.verdict import _choose_level


def make_case(n=2000, m=3, strength=0.8, seed=0, n_dimensions=3):
    """z shows a covariate that goes with the label; scores are the true ones."""
    rng = np.random.default_rng(seed)
    labels, sites = rng.integers(m, size=n), rng.integers(2, size=n)
    kept = rng.random(n) < strength
    covariate = np.where(kept, labels, rng.integers(m, size=n))
    z = rng.normal(size=(n, n_dimensions)) * 0.3
    z[:, : min(m, n_dimensions)] += np.eye(m)[covariate][:, :n_dimensions]
    given = np.full((m, m), (1 - strength) / m) + strength * np.eye(m)
    scores = np.log(given[covariate])
    groups = Groups(labels, sites, tuple(f"l{i}" for i in range(m)), ("oslo", "rome"))
    matches = match_scores(
        scores, labels, sites, n_nearest=20, generator=np.random.default_rng(seed)
    )
    matches = keep_near_ties(matches, 0.1)
    return z, scores, matches, groups, covariate


@pytest.fixture(scope="module")
def case():
    return make_case()


@pytest.fixture(scope="module")
def found(case):
    z, scores, matches, groups, covariate = case
    return diagnose_balance(z, scores, matches, groups, known={"colour": covariate})


class TestDiagnosis:
    def test_a_planted_dependence_is_found_and_its_removal_too(self, found):
        colour = found.worst[found.worst["kind"] == "known"]
        assert (colour["smd_before"] > 0.5).all()
        assert (colour["smd_after"] < 0.1).all()
        assert found.verdict.level == "removed"
        assert "strong dependence" in found.verdict.headline
        assert any("colour" in finding for finding in found.verdict.findings)

    def test_data_without_dependence_have_nothing_to_gain(self):
        z, scores, matches, groups, _ = make_case(strength=0.0)
        verdict = diagnose_balance(z, scores, matches, groups).verdict
        assert verdict.level == "nothing to gain"
        assert "little to gain" in verdict.headline

    def test_matches_that_ignore_z_leave_the_dependence(self, case):
        z, _, _, groups, _ = case
        flat = np.full((len(groups), 3), -np.log(3))
        rng = np.random.default_rng(0)
        matches = match_scores(
            flat, groups.labels, groups.environments, n_nearest=20, generator=rng
        )
        verdict = diagnose_balance(z, flat, matches, groups).verdict
        assert verdict.level == "left"
        assert any("latent_dim" in advice for advice in verdict.advice)

    def test_fewer_matches_than_labels_leave_some_and_more_are_advised(self, case):
        z, scores, matches, groups, _ = case
        verdict = diagnose_balance(z, scores, matches, groups, n_matches=1).verdict
        assert verdict.level in ("reduced", "left")
        assert any("n_matches=2 instead of 1" in advice for advice in verdict.advice)

    def test_after_means_the_frequencies_of_balanced_batches(self, case, found):
        _, _, matches, groups, covariate = case
        np.testing.assert_array_equal(found.weights, balanced_frequencies(matches, 2))
        cross = found.cross.set_index(["environment", "label", "value"])
        here = (groups.environments == 1) & (groups.labels == 2)
        share = np.average(covariate[here] == 0, weights=found.weights[here])
        assert cross.loc[("rome", "l2", "0"), "after"] == pytest.approx(share)
        assert cross.loc[("rome", "l2", "0"), "before"] == pytest.approx(
            (covariate[here] == 0).mean()
        )

    def test_every_table_names_environments_labels_and_covariates_as_the_user_does(self, found):
        assert set(found.table["environment"]) == {"oslo", "rome", POOLED}
        assert set(found.table["first"]) | set(found.table["second"]) == {"l0", "l1", "l2"}
        assert {"colour = 0", "z1", "z1²", "z1·z2", "score of l0"} <= set(found.table["covariate"])
        assert len(found.table) == found.table["covariate"].nunique() * 3 * 3

    def test_columns_of_a_table_that_are_evened_out_are_told_from_those_that_stay(self, case):
        z, scores, matches, groups, covariate = case
        rng = np.random.default_rng(1)
        features = {
            "background": covariate + 0.1 * rng.normal(size=len(groups)),
            "shape": groups.labels + 0.5 * rng.normal(size=len(groups)),
        }
        verdict = diagnose_balance(z, scores, matches, groups, features=features).verdict
        evened = next(text for text in verdict.findings if text.startswith("Evened out"))
        still = next(text for text in verdict.findings if text.startswith("Still different"))
        assert "background" in evened
        assert "background" not in still
        assert "shape" in still

    def test_matches_that_leave_nothing_are_refused_in_words(self, case):
        z, scores, matches, groups, _ = case
        nothing = Matches(
            np.full_like(matches.indices, -1), np.full_like(matches.distances, np.inf), "kl"
        )
        with pytest.raises(ValueError, match="no example has a match"):
            diagnose_balance(z, scores, nothing, groups)

    def test_examples_that_do_not_belong_together_are_refused(self, case):
        z, scores, matches, groups, _ = case
        with pytest.raises(ValueError, match="must be of the same examples"):
            diagnose_balance(z[:5], scores, matches, groups)

    def test_thousands_of_label_pairs_are_cut_down_to_those_that_differ_most(self):
        rng = np.random.default_rng(0)
        n, m = 3000, 50
        labels = np.arange(n) % m
        z = rng.normal(size=(n, 2))
        z[labels == 7] += 20.0
        scores = np.full((n, m), -np.log(m))
        groups = Groups(labels, np.zeros(n, dtype=int), tuple(map(str, range(m))), ("one",))
        matches = match_scores(scores, labels, n_nearest=1)
        found = diagnose_balance(z, scores, matches, groups)
        assert any("1,225 label pairs" in note for note in found.notes)
        pairs = found.table[["first", "second"]].drop_duplicates()
        assert len(pairs) == 1000
        assert ((pairs["first"] == "7") | (pairs["second"] == "7")).sum() == 49


def trim(matches, kept):
    """The same matches where only the examples `kept` may have any, or be any."""
    allowed = kept[:, None, None] & (matches.indices >= 0) & kept[matches.indices]
    order = np.argsort(~allowed, axis=2, kind="stable")
    indices = np.take_along_axis(np.where(allowed, matches.indices, -1), order, axis=2)
    distances = np.take_along_axis(np.where(allowed, matches.distances, np.inf), order, axis=2)
    return Matches(indices, distances, matches.metric)


@pytest.mark.filterwarnings("error")
class TestTrimming:
    """Data that trimming deletes are not balanced, and the verdict must not say so."""

    def test_an_environment_of_which_nothing_is_left_is_named(self, case):
        z, scores, matches, groups, _ = case
        gone = groups.environments == 1
        found = diagnose_balance(z, scores, trim(matches, ~gone), groups)
        assert found.weights[gone].sum() == 0
        rome = found.worst.query("environment == 'rome' and kind == 'z'")
        assert rome["smd_before"].min() > 0.5
        assert rome["smd_after"].isna().all()
        told = found.information.set_index(["environment", "variable"])
        assert np.isnan(told.loc[("rome", "z"), "after"])
        assert told.loc[("rome", "z"), "left"] == 0
        assert told.loc[(POOLED, "z"), "after"] == told.loc[("oslo", "z"), "after"]
        assert found.verdict.level == "removed"  # in the other one it is
        share = f"{100 * gone.mean():.0f}\u00a0% of the examples have no match"
        assert share in found.verdict.headline
        (text,) = [each for each in found.verdict.findings if each.startswith("Left out")]
        assert f"{gone.sum():,} of {len(groups):,} examples" in text
        assert "Nothing is left of environment rome (Z told" in text
        assert any("common_support" in advice for advice in found.verdict.advice)
        page = " ".join(summarise_balance(found).split())
        assert "Nothing is left of environment rome" in page
        assert "nan" not in page

    def test_what_was_left_out_with_its_environment_was_not_removed(self, case):
        """The dependence in rome is strong and gone; that in oslo is weaker and still there."""
        z, _, _, groups, _ = case
        rng = np.random.default_rng(0)
        in_oslo = groups.environments == 0
        mixed = np.where(in_oslo[:, None] & (rng.random(len(z)) < 0.6)[:, None], z[::-1], z)
        flat = np.full((len(groups), 3), -np.log(3))
        any_match = match_scores(
            flat, groups.labels, groups.environments, n_nearest=20, generator=rng
        )
        found = diagnose_balance(mixed, flat, trim(any_match, in_oslo), groups)
        told = found.information.set_index(["environment", "variable"])
        assert told.loc[("rome", "z"), "before"] > 4 * told.loc[("oslo", "z"), "before"]
        assert found.verdict.level == "left"
        advice = " ".join(found.verdict.advice)
        assert "Loosen common_support" in advice
        assert "common_support=True" not in advice
        assert "Try a caliper" not in advice

    def test_so_few_examples_that_nothing_is_known_of_them_are_no_success(self, case):
        z, scores, matches, groups, covariate = case
        kept = np.zeros(len(groups), dtype=bool)
        kept[:25] = True
        features = {"background": covariate * 1.0}
        found = diagnose_balance(z, scores, trim(matches, kept), groups, features=features)
        assert 0 < (found.weights > 0).sum() <= 25
        assert found.information.query("variable == 'z'")["after"].isna().all()
        assert found.verdict.level == "not known"
        assert "too few examples have a match to say" in found.verdict.headline
        assert not any("remove" in text or "Evened" in text for text in found.verdict.findings)
        page = summarise_balance(found)
        assert "nan" not in page
        assert "not known" in page

    def test_few_effective_examples_are_as_few_as_few(self):
        """What is told may look like nothing, and means like even ones, by chance alone."""
        many = make_dependence(0.05)
        assert _choose_level(many, None) == "removed"
        assert _choose_level(replace(many, chance=0.49), None) == "not known"
        assert _choose_level(replace(many, told_after=np.nan), None) == "not known"
        known = replace(many, chance=0.49, known_is_gone=True)
        assert _choose_level(known, None) == "removed"

    def test_environments_too_small_to_judge_give_no_verdict(self):
        z, scores, matches, groups, _ = make_case(n=60)
        verdict = diagnose_balance(z, scores, matches, groups).verdict
        assert verdict.level == "not known"
        assert "too few examples to say how the label depends on Z" in verdict.headline

    def test_examples_without_a_match_in_a_large_environment_are_not_what_is_looked_at(self):
        """Of 12,000 examples 10,000 are looked at, but of 200 that are left all 200."""
        z, scores, matches, groups, _ = make_case(n=24_000, m=2)
        kept = np.zeros(len(groups), dtype=bool)
        kept[::120] = True
        weights = balanced_frequencies(trim(matches, kept))
        found = tabulate_information(z, np.exp(scores), [], groups, kept * 1.0, seed=0)
        assert (weights > 0).sum() <= 200
        assert found.query("variable == 'z'")["after"].min() > 0.1


class TestSummary:
    def test_it_ends_in_the_verdict_and_fits_a_terminal(self, found):
        page = summarise_balance(found)
        assert max(len(line) for line in page.splitlines()) <= 80
        tables, verdict = page.split("\n\nVerdict\n")
        assert "What tells about the label" in tables
        for line in ("colour", "z1", "effective sample size", "least overlap"):
            assert line in tables
        words = " ".join(verdict.replace("·", "").split())
        assert " ".join(found.verdict.headline.split()) in words
        assert "What to do" in words


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

    def test_weights_that_balance_take_it_to_nothing(self, found):
        pooled = found.information[found.information["environment"] == POOLED]
        pooled = pooled.set_index("variable")
        for variable in ("z", "score", "colour"):
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


class TestOverlap:
    def test_it_is_the_shared_area_and_support_the_shared_range(self):
        p = np.array([0.9, 0.7, 0.5, 0.5, 0.3, 0.1])
        scores = np.log(np.stack([p, 1 - p], axis=1))
        groups = Groups(np.array([0, 0, 0, 1, 1, 1]), np.zeros(6, dtype=int), ("a", "b"), ("site",))
        found = measure_overlap(scores, groups, np.ones(6), np.array([0]), np.array([1])).table
        row = found.iloc[0]
        assert row.overlap_before == pytest.approx(1 / 3)
        assert row.first_in_support == pytest.approx(1 / 3)

    def test_scores_of_zero_probability_are_no_obstacle(self):
        with np.errstate(divide="ignore"):
            scores = np.log(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
        groups = Groups(np.arange(3), np.zeros(3, dtype=int), tuple("abc"), ("site",))
        table = measure_overlap(scores, groups, np.ones(3), *groups.pairs()).table
        assert (table["overlap_before"] == 0).all()


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


class TestGain:
    def test_a_classifier_that_leans_on_the_covariate_loses_it_and_balanced_training_gains(self):
        rng = np.random.default_rng(0)
        n = 3000
        labels = rng.integers(2, size=n)
        colour = np.where(rng.random(n) < 0.9, labels, 1 - labels)
        x = np.stack([3 * colour + 0.1 * rng.normal(size=n), labels + 0.7 * rng.normal(size=n)], 1)
        sites = np.zeros(n, dtype=int)
        matches = match_covariate(colour, labels, sites, generator=rng)
        gain = estimate_gain(torch.from_numpy(x), labels, balanced_frequencies(matches))
        assert gain.plain > 0.88
        assert gain.loss > 0.15
        assert gain.gain > 0.05
        again = estimate_gain(torch.from_numpy(x), labels, balanced_frequencies(matches))
        assert again == gain

    @pytest.mark.parametrize(
        ("gain", "after", "level"),
        [
            (None, 0.05, "removed"),
            (Gain(0.9, 0.5, 0.7, 0.01), 0.05, "removed"),
            (Gain(0.9, 0.9, 0.9, 0.01), 0.05, "nothing to gain"),
            (Gain(0.9, 0.6, 0.6, 0.01), 0.05, "removed"),  # found nothing else to look at
            (Gain(0.9, 0.85, 0.83, 0.02), 0.8, "nothing to gain"),
            (Gain(0.9, 0.7, 0.69, 0.01), 0.8, "left"),  # it leans on Z
            (Gain(0.9, 0.7, 0.69, 0.2), 0.8, "left"),  # too few examples to say
            (Gain(0.9, 0.55, 0.55, 0.01, 0.5), 0.8, "left"),  # it sees nothing besides Z
            (Gain(0.9, 0.5, 0.7, 0.01), 0.4, "reduced"),
        ],
    )
    def test_what_there_is_to_gain_decides_where_it_is_known_well_enough(self, gain, after, level):
        assert _choose_level(make_dependence(after), gain) == level

    @pytest.mark.parametrize(
        ("gain", "after", "if_steady", "if_varying"),
        [
            (Gain(0.9, 0.7, 0.75, 0.02, 0.5), 0.8, "nothing to gain", "left"),
            (Gain(0.9, 0.7, 0.75, 0.02, 0.5), 0.4, "nothing to gain", "reduced"),
            (Gain(0.9, 0.7, 0.69, 0.2, 0.5), 0.4, "reduced", "reduced"),  # not known
            (Gain(0.95, 0.65, 0.95, 0.25, 0.5), 0.4, "reduced", "reduced"),  # not known either
            (Gain(0.95, 0.65, 0.79, 0.05, 0.5), 0.4, "reduced", "reduced"),
            (Gain(0.9, 0.7, 0.65, 0.02, 0.5), 0.4, "nothing to gain", "reduced"),  # it leans on Z
            (Gain(0.9, 0.85, 0.84, 0.02, 0.5), 0.4, "nothing to gain", "nothing to gain"),
            (Gain(0.9, 0.7, 0.85, 0.02, 0.5), 0.4, "reduced", "reduced"),  # surely much
            (Gain(0.9, 0.55, 0.58, 0.02, 0.5), 0.4, "reduced", "reduced"),  # it cannot tell
            (Gain(0.9, 0.83, 0.84, 0.02, 0.5), 0.05, "nothing to gain", "removed"),
            (Gain(0.9, 0.6, 0.65, 0.02, 0.5), 0.05, "removed", "removed"),
            (None, 0.4, "reduced", "reduced"),
        ],
    )
    def test_z_that_varies_between_environments_needs_less_of_a_gain_to_be_called_spurious(
        self, gain, after, if_steady, if_varying
    ):
        assert _choose_level(make_dependence(after, variation=STEADY), gain) == if_steady
        assert _choose_level(make_dependence(after, variation=VARYING), gain) == if_varying


STEADY, VARYING, UNCLEAR = Variation(0.0, 0.05), Variation(0.35, 0.4), Variation(0.0, 0.6)


def make_dependence(after, **options):
    numbers = {"before": 1.0, "after": after, "chance": 0.02, "overlap": 0.3}
    return Dependence(**numbers, told_before=0.5, told_after=0.5 * after, **options)


def test_steadiness_that_is_not_known_excuses_no_gain():
    few_points = Gain(0.9, 0.7, 0.75, 0.02, 0.5)
    assert _choose_level(make_dependence(0.4, variation=STEADY), few_points) == "nothing to gain"
    assert _choose_level(make_dependence(0.4, variation=UNCLEAR), few_points) == "reduced"


class TestSentences:
    """What is said of one thing must not contradict what is said of another."""

    STRENGTH = pd.DataFrame({"environment": ["a", "b"], "told": [0.55, 0.3], "error": 0.01})

    def test_z_that_varies_is_not_called_content(self):
        d, gain = make_dependence(0.8, variation=VARYING), Gain(0.9, 0.88, 0.87, 0.005, 0.5)
        level = _choose_level(d, gain)
        assert level == "nothing to gain"
        assert "own content in Z" not in tell_after(d, level)
        assert "What is spurious changes like that" in tell_strength(d, self.STRENGTH)[0]
        steady = make_dependence(0.8, variation=STEADY)
        assert "looks like the label's own content in Z" in tell_after(steady, level)

    def test_what_so_few_examples_do_not_say_is_not_said(self):
        (text,) = tell_strength(make_dependence(0.8, variation=UNCLEAR), self.STRENGTH)
        assert "30\u00a0% to 55\u00a0%" in text
        assert "So few examples do not say" in text
        assert "about as much" not in text

    def test_a_large_gain_is_not_called_a_few_points(self):
        assert "A few points" in tell_gain(Gain(0.9, 0.7, 0.75, 0.02), "nothing to gain")
        assert "A few points" not in tell_gain(Gain(0.9, 0.6, 0.9, 0.02), "nothing to gain")


def test_what_is_left_in_z_counts_for_less_where_the_true_covariate_is_known_to_be_gone():
    numbers = {"before": 1.0, "after": 0.4, "chance": 0.02, "overlap": 0.3}
    told = {"told_before": 0.5, "told_after": 0.01}
    assert _choose_level(Dependence(**numbers, **told), None) == "reduced"
    assert _choose_level(Dependence(**numbers, **told, known_is_gone=True), None) == "removed"
    told["told_after"] = 0.3
    assert _choose_level(Dependence(**numbers, **told, known_is_gone=True), None) == "left"


def test_tables_are_frames_that_can_be_written(found, tmp_path):
    for name in ("table", "worst", "information", "overlap", "histograms", "cross", "use", "reuse"):
        frame = getattr(found, name)
        assert isinstance(frame, pd.DataFrame)
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        again = pd.read_csv(tmp_path / f"{name}.csv")
        assert list(again.columns) == list(frame.columns)
        assert len(again) == len(frame)
