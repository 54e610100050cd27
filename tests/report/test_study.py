"""The gallery shows anchors of all kinds, and their own matches."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from equipoise.balance import match_scores
from equipoise.report.study import choose_anchors, find_farthest, show_anchors
from report.subjects import fit_table


@given(st.integers(1, 60), st.integers(0, 5))
def test_every_pair_of_label_and_environment_is_shown_if_there_is_room(n_anchors, seed):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(3, size=50), rng.integers(2, size=50)
    chosen = choose_anchors(labels, environments, n_anchors, np.random.default_rng(seed))
    assert len(chosen) == len(set(chosen.tolist())) == min(n_anchors, 50)
    pairs = {*zip(labels.tolist(), environments.tolist(), strict=True)}
    seen = {(labels[i], environments[i]) for i in chosen.tolist()}
    assert len(seen) == min(len(pairs), n_anchors)


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 5))
def test_every_label_is_shown_once_before_any_is_shown_twice(n_labels, n_environments, seed):
    rng = np.random.default_rng(seed)
    labels, environments = rng.integers(n_labels, size=80), rng.integers(n_environments, size=80)
    present = len(np.unique(labels))
    chosen = choose_anchors(labels, environments, present, np.random.default_rng(seed))
    assert len(np.unique(labels[chosen])) == present


def test_few_anchors_are_of_several_environments():
    labels, environments = np.repeat(np.arange(6), 60), np.tile(np.arange(3), 120)
    chosen = choose_anchors(labels, environments, 6, np.random.default_rng(0))
    assert set(environments[chosen].tolist()) == {0, 1, 2}


def test_the_same_seed_shows_the_same_anchors():
    labels, environments = np.arange(90) % 3, np.arange(90) % 2
    drawn = [
        choose_anchors(labels, environments, 12, np.random.default_rng(seed)).tolist()
        for seed in (0, 0, 1)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_matches_are_those_of_the_table_nearest_label_first():
    matches = fit_table().matches_
    (shown,) = show_anchors(matches, np.array([7]), per_label=2)
    by_label = list(dict.fromkeys(match.label for match in shown.matches))
    nearest = [matches.distances[7, label, 0] for label in by_label]
    assert nearest == sorted(nearest)
    for match in shown.matches:
        place = np.flatnonzero(matches.indices[7, match.label] == match.example)
        assert matches.distances[7, match.label, place[0]] == match.distance
    found = (matches.indices[7] >= 0).sum(axis=1)
    assert shown.n_near == {label: found[label] for label in by_label}


def test_the_farthest_are_those_with_the_worst_nearest_match():
    scores = np.log(np.array([[0.9, 0.1], [0.5, 0.5], [0.45, 0.55], [0.4, 0.6]]))
    matches = match_scores(scores, [0, 0, 1, 1], n_nearest=1, metric="l2")
    assert find_farthest(matches, 1).tolist() == [0]


def test_an_anchor_without_any_match_is_not_among_the_farthest():
    scores = np.log(np.full((4, 2), 0.5))
    matches = match_scores(scores, [0, 0, 0, 1], [0, 0, 1, 1], n_nearest=1)
    assert set(find_farthest(matches, 4).tolist()) <= {2, 3}
