"""Matches on demand and in a file answer as a table does; what fits decides the form."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.balance import LazyMatches, Matches, balanced_frequencies, find_matches, large
from equipoise.balance.match import match_scores
from equipoise.balance.matches import pack_matches
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


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(KINDS),
    metric=st.sampled_from(METRICS),
    n=st.integers(3, 120),
    m=st.integers(2, 6),
    tolerance=st.sampled_from([None, 0.0, 0.1, 1.0]),
    common_support=st.sampled_from([False, True, 0.05]),
)
def test_matches_are_the_same_in_whatever_form(seed, kind, metric, n, m, tolerance, common_support):
    """As a table, on demand, and in the order of a generator that breaks ties at random."""
    scores, labels, environments = make_problem(seed, kind, n, m)
    settings_ = {
        "metric": metric,
        "n_nearest": 5,
        "tolerance": tolerance,
        "common_support": common_support,
    }
    table, lazy = (
        find_matches(
            scores,
            labels,
            environments,
            memory=memory,
            generator=np.random.default_rng(seed),
            **settings_,
        )
        for memory in (1 << 30, 1)
    )
    assert isinstance(table, Matches)
    assert isinstance(lazy, LazyMatches)
    again = lazy.take(np.arange(n))
    np.testing.assert_array_equal(again.indices, table.indices)
    np.testing.assert_array_equal(again.distances, table.distances)
    np.testing.assert_array_equal(lazy.matched, table.matched)
    np.testing.assert_array_equal(lazy.has_match(np.arange(n)), table.has_match(np.arange(n)))


def test_the_tolerance_of_the_search_is_that_of_near_ties():
    scores, labels, environments = make_problem(3, "peaked", 400, 5)
    for metric in METRICS:
        whole = match_scores(scores, labels, environments, metric=metric, n_nearest=10)
        for options in ({}, {"engine": "blocked"}, {"memory": 30 << 20}):
            found = match_scores(
                scores, labels, environments, metric=metric, n_nearest=10, tolerance=0.2, **options
            )
            far = whole.distances > 0.2
            far[:, :, 0] = False
            np.testing.assert_array_equal(found.indices, np.where(far, -1, whole.indices))
            np.testing.assert_array_equal(found.distances, np.where(far, np.inf, whole.distances))


@pytest.mark.parametrize("option", [{"reuse_max": 2}, {"caliper": "0.5sd"}])
def test_what_needs_all_matches_at_once_is_kept_in_a_file(option):
    scores, labels, environments = make_problem(4, "flat", 300, 4)
    in_memory = find_matches(scores, labels, environments, n_nearest=3, **option)
    in_a_file = find_matches(scores, labels, environments, n_nearest=3, memory=1, **option)
    assert isinstance(in_a_file.indices, np.memmap)
    np.testing.assert_array_equal(in_a_file.indices, in_memory.indices)
    np.testing.assert_array_equal(in_a_file.distances, in_memory.distances)


def test_matches_on_demand_have_nothing_to_store():
    scores, labels, environments = make_problem(4, "flat", 300, 4)
    assert pack_matches(find_matches(scores, labels, environments, memory=1)) == {}
    assert "match_counts" in pack_matches(find_matches(scores, labels, environments))


def test_a_table_that_fits_nowhere_is_refused(monkeypatch):
    scores, labels, environments = make_problem(4, "flat", 300, 4)
    monkeypatch.setattr(large.shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000))
    with pytest.raises(ValueError, match="leave out reuse_max"):
        find_matches(scores, labels, environments, n_nearest=3, memory=1, reuse_max=2)


def test_many_labels_are_matched_on_demand_even_where_the_table_fits(monkeypatch):
    scores, labels, environments = make_problem(4, "flat", 300, 4)
    monkeypatch.setattr(large, "MOST_MEASURED", 1_000)
    assert isinstance(find_matches(scores, labels, environments), LazyMatches)


@pytest.mark.parametrize("n_matches", [None, 2])
def test_weights_of_matches_on_demand_are_those_of_the_table(n_matches):
    """Exactly where all labels are asked, and on average where some stand for all."""
    scores, labels, environments = make_problem(5, "flat", 2_000, 4)
    table, lazy = (
        find_matches(scores, labels, environments, n_nearest=3, memory=memory)
        for memory in (1 << 30, 1)
    )
    expected = balanced_frequencies(table, n_matches)
    np.testing.assert_allclose(balanced_frequencies(lazy, n_matches), expected)
    scores, labels, environments = make_problem(5, "flat", 4_000, 12)
    table, lazy = (
        find_matches(scores, labels, environments, n_nearest=3, memory=memory)
        for memory in (1 << 30, 1)
    )
    expected, found = balanced_frequencies(table, n_matches), balanced_frequencies(lazy, n_matches)
    assert found.sum() == pytest.approx(expected.sum())
    assert np.corrcoef(found, expected)[0, 1] > 0.8
    assert abs((found - expected).mean()) < 1e-9
