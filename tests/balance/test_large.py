"""Lazy matches answer as a table does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.balance import large
from equipoise.balance.large import LazyMatches
from equipoise.balance.match import match_scores
from tests.balance.match_reference import KINDS, METRICS, make_scores


def make_problem(seed: int, kind: str, n: int, m: int):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, m, n)
    labels[:2] = [0, 1]
    return make_scores(kind, rng, n, m), labels, rng.integers(0, 3, n)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    metric=st.sampled_from(METRICS),
    n=st.integers(2, 150),
    m=st.integers(2, 8),
    k=st.integers(1, 3),
    caliper=st.sampled_from([None, 0.1]),
    ahead=st.booleans(),
)
def test_lookup_and_has_match_are_those_of_the_table(seed, kind, metric, n, m, k, caliper, ahead):
    scores, labels, environments = make_problem(seed, kind, n, m)
    settings_ = {"metric": metric, "n_nearest": k, "caliper": caliper}
    table = match_scores(scores, labels, environments, **settings_)
    lazy = LazyMatches(scores, labels, environments, ahead=ahead, **settings_)
    rng = np.random.default_rng(seed)
    anchors = rng.integers(0, n, 40)
    asked = rng.integers(0, m, (40, 3))
    np.testing.assert_array_equal(lazy.lookup(anchors, asked), table.lookup(anchors, asked))
    np.testing.assert_array_equal(lazy.has_match(anchors), table.has_match(anchors))
    _indices, distances = lazy.lookup_with_distances(anchors, asked)
    np.testing.assert_array_equal(distances, table.distances[anchors[:, None], asked])


def test_strata_beyond_the_memory_are_forgotten_and_made_again():
    scores, labels, environments = make_problem(0, "flat", 400, 5)
    table = match_scores(scores, labels, environments)
    lazy = LazyMatches(scores, labels, environments, memory=20_000, n_jobs=2)
    everyone = np.arange(400)
    asked = np.broadcast_to(np.arange(5), (400, 5))
    for _ in range(2):
        np.testing.assert_array_equal(lazy.lookup(everyone, asked), table.indices)
    assert 0 < strata_ready(lazy) < 15


def strata_ready(lazy: LazyMatches) -> int:
    return int(repr(lazy).split(", ")[-1].split()[0])


def test_strata_are_built_ahead_in_memory_and_on_demand_from_a_file(tmp_path):
    scores, labels, environments = make_problem(0, "flat", 400, 5)
    np.save(tmp_path / "scores.npy", scores)
    assert strata_ready(LazyMatches(scores, labels, environments)) == 15
    assert strata_ready(LazyMatches(scores, labels, environments, ahead=False)) == 0
    file = tmp_path / "scores.npy"
    lazy = LazyMatches(file, labels, environments)
    assert strata_ready(lazy) == 0
    anchor = np.flatnonzero(labels != 2)[:1]
    lazy.lookup(anchor, np.array([[2]]))
    assert strata_ready(lazy) == 1
    assert strata_ready(LazyMatches(file, labels, environments, ahead=True)) == 15


@pytest.mark.parametrize("ahead", [None, True, False])
@pytest.mark.parametrize("memory", [1, 1 << 30])
def test_bad_scores_are_refused_at_once_whatever_fits_in_memory(ahead, memory):
    scores, labels, environments = make_problem(0, "flat", 400, 5)
    scores[17] += 0.5
    with pytest.raises(ValueError, match=r"row 17 sums to 1\.64872"):
        LazyMatches(scores, labels, environments, ahead=ahead, memory=memory)


@pytest.mark.parametrize("metric", METRICS)
def test_anchors_in_many_pieces_are_answered_like_the_table(metric, monkeypatch):
    monkeypatch.setattr(large, "_ENTRIES_AT_ONCE", 100)
    scores, labels, environments = make_problem(1, "peaked", 400, 5)
    table = match_scores(scores, labels, environments, metric=metric)
    lazy = LazyMatches(scores, labels, environments, metric=metric, n_jobs=2)
    everyone, asked = np.arange(400)[::-1], np.broadcast_to(np.arange(5), (400, 5))
    np.testing.assert_array_equal(lazy.lookup(everyone, asked), table.indices[::-1])


def test_it_introduces_itself():
    scores, labels, environments = make_problem(0, "flat", 400, 5)
    lazy = LazyMatches(scores, labels, environments, metric="l1", n_nearest=2)
    assert (
        repr(lazy)
        == "LazyMatches(400 examples, 5 labels, n_nearest=2, metric='l1', 15 strata ready)"
    )
    assert len(lazy) == 400
    assert lazy.companions is None


@pytest.mark.parametrize(("anchor", "label"), [(400, 0), (-1, 0), (0, 5), (0, -1)])
def test_what_does_not_exist_cannot_be_looked_up(anchor, label):
    scores, labels, environments = make_problem(0, "flat", 400, 5)
    with pytest.raises(ValueError, match=r"0…399 and labels in 0…4"):
        LazyMatches(scores, labels, environments).lookup(np.array([anchor]), np.array([[label]]))
