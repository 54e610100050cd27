"""Matching against brute force in float64, and matching on a known covariate."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from equipoise.balance import match_covariate
from equipoise.balance.distances import pair_distances
from equipoise.balance.match import match_scores
from tests.balance.match_reference import (
    KINDS,
    METRICS,
    make_scores,
    plain_candidates,
    plain_distance,
    plain_greedy,
)

#: Plain KL cancels terms of size 1, and a plain square of 1e-170 is 0.
NOISE = 1e-12


def make_problem(seed: int, kind: str, n: int, m: int, n_environments: int = 2):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, m, n)
    labels[rng.random(n) < 0.2] = 0
    labels[:2] = [0, 1]
    return make_scores(kind, rng, n, m), labels, rng.integers(0, n_environments, n) * 7


problems = {
    "seed": st.integers(0, 2**32),
    "kind": st.sampled_from(KINDS),
    "metric": st.sampled_from(METRICS),
    "m": st.integers(2, 40),
    "k": st.integers(1, 4),
}


@settings(max_examples=150, deadline=None)
@given(n=st.integers(2, 60), **problems)
def test_matches_are_those_of_a_plain_brute_force(seed, kind, metric, n, m, k):
    scores, labels, environments = make_problem(seed, kind, n, m)
    matches = match_scores(scores, labels, environments, metric=metric, n_nearest=k)
    plain = plain_distance(metric, scores, scores)
    for anchor in range(n):
        for label in range(m):
            candidates = plain_candidates(labels, environments, anchor, label)
            found, distance = matches.indices[anchor, label], matches.distances[anchor, label]
            count = min(k, len(candidates))
            assert set(found[:count]) <= set(candidates)
            assert (found[count:] == -1).all()
            assert np.isposinf(distance[count:]).all()
            order = np.argsort(plain[anchor, candidates], kind="stable")
            best = plain[anchor, candidates[order]]
            tolerance = 1e-6 if kind == "float32" else NOISE  # float32 sums to 1 ± 1e-7
            np.testing.assert_allclose(distance[:count], best[:count], rtol=1e-9, atol=tolerance)
            with np.errstate(invalid="ignore"):
                clear = (np.diff(best[: count + 1]) > NOISE).all()
            if kind != "float32" and clear:
                np.testing.assert_array_equal(found[:count], candidates[order[:count]])


@settings(max_examples=150, deadline=None)
@given(n=st.integers(2, 60), **problems)
def test_exact_ties_go_to_the_lowest_index(seed, kind, metric, n, m, k):
    scores, labels, environments = make_problem(seed, kind, n, m)
    matches = match_scores(scores, labels, environments, metric=metric, n_nearest=k)
    exact = pair_distances(metric, scores[:, None], scores[None])
    for anchor in range(n):
        for label in range(m):
            candidates = plain_candidates(labels, environments, anchor, label)
            order = np.argsort(exact[anchor, candidates], kind="stable")[:k]
            found = matches.indices[anchor, label]
            np.testing.assert_array_equal(found[found >= 0], candidates[order])


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 40), reuse_max=st.integers(1, 3), **{**problems, "m": st.integers(2, 4)})
@example(seed=9822, kind="peaked", metric="l1", n=29, m=3, k=4, reuse_max=2)  # short lists last
def test_reuse_is_limited_as_by_greedy_choice_of_the_closest_pairs(
    seed, kind, metric, n, m, k, reuse_max
):
    scores, labels, environments = make_problem(seed, kind, n, m)
    matches = match_scores(
        scores, labels, environments, metric=metric, n_nearest=k, reuse_max=reuse_max
    )
    exact = pair_distances(metric, scores[:, None], scores[None])
    for environment in np.unique(environments):
        here = environments == environment
        for label in range(m):
            anchors = np.flatnonzero(here & (labels != label))
            candidates = np.flatnonzero(here & (labels == label))
            greedy = plain_greedy(exact[np.ix_(anchors, candidates)], k, reuse_max)
            for anchor, pairs in zip(anchors, greedy, strict=True):
                expected = [int(candidates[c]) for _, c in pairs]
                found = matches.indices[anchor, label]
                assert found[found >= 0].tolist() == expected


def test_scarce_candidates_go_to_the_closest_anchors():
    scores, _, _ = make_problem(8, "flat", 900, 3)
    labels = np.repeat([0, 1, 2], [30, 400, 470])
    matches = match_scores(scores, labels, metric="l1", n_nearest=2, reuse_max=3)
    exact = pair_distances("l1", scores[labels != 0][:, None], scores[labels == 0][None])
    greedy = plain_greedy(exact, 2, 3)
    found = [row[row >= 0].tolist() for row in matches.indices[labels != 0, 0]]
    assert found == [[c for _, c in pairs] for pairs in greedy]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), caliper=st.floats(0, 1), **problems)
def test_a_caliper_only_takes_away_what_is_farther(seed, kind, metric, n, m, k, caliper):
    scores, labels, environments = make_problem(seed, kind, n, m)
    free = match_scores(scores, labels, environments, metric=metric, n_nearest=k)
    held = match_scores(scores, labels, environments, metric=metric, n_nearest=k, caliper=caliper)
    near = free.distances <= caliper
    np.testing.assert_array_equal(held.indices, np.where(near, free.indices, -1))
    np.testing.assert_array_equal(held.distances, np.where(near, free.distances, np.inf))


@pytest.mark.parametrize("metric", METRICS)
def test_every_match_is_of_the_same_environment_and_the_asked_label(metric):
    scores, labels, environments = make_problem(3, "peaked", 400, 5, n_environments=4)
    matches = match_scores(scores, labels, environments, metric=metric, n_nearest=3)
    anchors, asked, _ = np.nonzero(matches.indices >= 0)
    found = matches.indices[matches.indices >= 0]
    assert (labels[found] == asked).all()
    assert (labels[anchors] != asked).all()
    assert (environments[found] == environments[anchors]).all()


@pytest.mark.parametrize("metric", METRICS)
def test_threads_and_runs_do_not_change_the_answer(metric):
    scores, labels, environments = make_problem(4, "duplicates", 500, 6)
    once = match_scores(scores, labels, environments, metric=metric, n_nearest=2)
    again = match_scores(scores, labels, environments, metric=metric, n_nearest=2, n_jobs=3)
    np.testing.assert_array_equal(once.indices, again.indices)
    np.testing.assert_array_equal(once.distances, again.distances)


def test_a_generator_breaks_ties_at_random_and_nothing_else():
    scores, labels, environments = make_problem(5, "equal", 60, 3)
    first = match_scores(scores, labels, environments)
    seeded = [
        match_scores(scores, labels, environments, generator=np.random.default_rng(seed))
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(seeded[0].indices, seeded[1].indices)
    assert (seeded[0].indices != seeded[2].indices).any()
    np.testing.assert_array_equal(first.distances, seeded[0].distances)

    scores, labels, environments = make_problem(5, "flat", 60, 3)
    np.testing.assert_array_equal(
        match_scores(scores, labels, environments).indices,
        match_scores(scores, labels, environments, generator=np.random.default_rng(0)).indices,
    )


def test_tensors_and_float32_are_welcome():
    scores, labels, environments = make_problem(6, "flat", 50, 4)
    expected = match_scores(scores.astype(np.float32), labels, environments)
    tensors = match_scores(
        torch.tensor(scores, dtype=torch.float32, requires_grad=True),
        torch.tensor(labels),
        torch.tensor(environments),
    )
    np.testing.assert_array_equal(tensors.indices, expected.indices)


def test_without_environments_all_examples_share_one():
    scores, labels, _ = make_problem(7, "flat", 50, 4)
    np.testing.assert_array_equal(
        match_scores(scores, labels).indices,
        match_scores(scores, labels, np.full(50, 12)).indices,
    )


GOOD = np.log([[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]])
BAD_INPUT = {
    "nan": ({"log_scores": np.where([[1, 0]], np.nan, GOOD)}, "NaN in row 0"),
    "not normalised": ({"log_scores": GOOD + 1.0}, "sums to 2.71828"),
    "plain probabilities": ({"log_scores": np.exp(GOOD)}, "log_softmax"),
    "infinite": ({"log_scores": np.where([[1, 0]], np.inf, GOOD)}, "sums to inf"),
    "empty": ({"log_scores": np.zeros((0, 2)), "labels": []}, "N > 0"),
    "one axis": ({"log_scores": GOOD[0]}, r"shape \[N, m\]"),
    "one column": ({"log_scores": np.zeros((3, 1)), "labels": [0, 0, 0]}, "at least 2 labels"),
    "labels too short": ({"labels": [0, 1]}, r"\(2,\)"),
    "label too large": ({"labels": [0, 1, 2]}, "got 2"),
    "label negative": ({"labels": [0, 1, -1]}, "got -1"),
    "one label only": ({"labels": [1, 1, 1]}, "only label 1"),
    "environments too short": ({"environments": [0, 1]}, "environments must have shape"),
    "unknown metric": ({"metric": "l3"}, r"Did you mean 'l\d'\? Known: l1, l2, linf, kl"),
    "metric in other words": ({"metric": "KL-divergence"}, "Did you mean 'kl'"),
    "unknown engine": ({"engine": "kd-tree"}, "Did you mean 'kdtree'"),
    "n_nearest of zero": ({"n_nearest": 0}, "n_nearest must be at least 1"),
    "reuse of zero": ({"reuse_max": 0}, "reuse_max must be at least 1"),
    "negative caliper": ({"caliper": -0.1}, "caliper"),
    "nan caliper": ({"caliper": float("nan")}, "caliper"),
}


@pytest.mark.parametrize(("change", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_told_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        match_scores(**{"log_scores": GOOD, "labels": [0, 1, 1], **change})


@pytest.mark.parametrize(
    "change",
    [
        {"labels": [0.0, 1.0, 1.0]},
        {"labels": ["a", "b", "b"]},
        {"n_nearest": 1.5},
        {"n_nearest": True},
    ],
    ids=["float labels", "string labels", "fractional k", "boolean k"],
)
def test_wrong_types_are_refused(change):
    with pytest.raises(TypeError):
        match_scores(**{"log_scores": GOOD, "labels": [0, 1, 1], **change})


def make(k=5, n=300):
    rng = np.random.default_rng(0)
    covariate, labels, environments = (rng.integers(c, size=n) for c in (4, 3, 2))
    matches = match_covariate(covariate, labels, environments, n_nearest=k, generator=rng)
    return covariate, labels, environments, matches


def test_every_match_has_the_covariate_the_environment_and_the_label_asked_for():
    covariate, labels, environments, matches = make()
    anchor, label, _ = np.nonzero(matches.indices >= 0)
    found = matches.indices[matches.indices >= 0]
    assert (covariate[found] == covariate[anchor]).all()
    assert (environments[found] == environments[anchor]).all()
    assert (labels[found] == label).all()
    assert (labels[anchor] != label).all()
    assert (matches.distances[matches.indices >= 0] == 0).all()


def test_companions_share_label_and_covariate():
    covariate, labels, environments, matches = make()
    for values in (covariate, labels, environments):
        assert (values[matches.companions] == values[:, None]).all()


def test_not_always_the_first_candidate_is_taken():
    *_, matches = make(k=1)
    first = matches.indices[:, 0, 0]
    assert len(np.unique(first[first >= 0])) > 20


def test_a_row_lists_no_candidate_twice():
    *_, matches = make(k=8)
    for row in matches.indices.reshape(-1, 8):
        found = row[row >= 0]
        assert len(np.unique(found)) == len(found)


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="labels"):
        match_covariate([0, 1], [0, 1, 0], [0, 0, 0], generator=np.random.default_rng(0))


@pytest.mark.parametrize("labels", [[-1, 1, 0], [0, 1, 5], [0.5, 1.0, 0.0]])
def test_labels_that_are_no_codes_are_refused(labels):
    with pytest.raises((ValueError, TypeError), match="label"):
        match_covariate(
            [0, 1, 0], labels, [0, 0, 0], n_labels=2, generator=np.random.default_rng(0)
        )
