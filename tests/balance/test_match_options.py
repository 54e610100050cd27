"""Calipers in deviations, common support, statistics, backends and the optional engines."""

from __future__ import annotations

import sys

import joblib
import numpy as np
import pytest

from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.blocked import BlockedEngine
from equipoise.balance.engines.choice import ENGINES, cheapest
from equipoise.balance.engines.nearest import DirectEngine
from equipoise.balance.large import LazyMatches
from equipoise.balance.match import match_scores
from equipoise.balance.scores import common_support
from equipoise.balance.weights import balanced_frequencies
from tests.balance.match_reference import KINDS, METRICS, make_scores


def make_problem(kind: str, n: int, m: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, m, n)
    return make_scores(kind, rng, n, m), labels, rng.integers(0, 2, n)


def test_a_caliper_of_deviations_compares_logits_of_the_two_labels():
    scores, labels, environments = make_problem("flat", 300, 3)
    free = match_scores(scores, labels, environments, n_nearest=4)
    held = match_scores(scores, labels, environments, n_nearest=4, caliper="0.2sd")
    for anchor in range(300):
        here = environments == environments[anchor]
        own = labels[anchor]
        for other in set(range(3)) - {own}:
            logit = scores[:, other] - scores[:, own]
            deviation = logit[here & np.isin(labels, [own, other])].std(ddof=1)
            found = free.indices[anchor, other]
            kept = found[np.abs(logit[found] - logit[anchor]) <= 0.2 * deviation]
            result = held.indices[anchor, other]
            assert result[result >= 0].tolist() == kept.tolist()
            assert (result[len(kept) :] == -1).all()


@pytest.mark.parametrize("caliper", ["0.2", "sd", "-1sd", "wide", "1e5e5sd"])
def test_a_caliper_in_other_words_is_refused(caliper):
    with pytest.raises(ValueError, match=r"such as '0\.2sd'"):
        match_scores(np.log(np.full((2, 2), 0.5)), [0, 1], caliper=caliper)


def test_the_computed_limit_drops_tails_and_nothing_where_all_are_alike():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=4000)
    z = rng.normal(size=4000) + 2 * labels - 1
    logits = np.stack([np.zeros(4000), 2 * z], axis=1)
    scores = logits - np.logaddexp(0, 2 * z)[:, None]
    kept = common_support(scores, labels, least="auto")
    sums = np.exp(-scores).sum(axis=1)
    assert 0.5 < kept.mean() < 0.99
    assert sums[kept].max() <= 2 * sums[kept].mean()  # the largest limit that has this
    further = np.sort(sums[~kept])[0]
    assert further > 2 * sums[sums <= further].mean()
    two = np.log(np.where(np.arange(2) == labels[:, None], 0.9, 0.1))
    assert common_support(two, labels, least="auto").all()
    matches = match_scores(scores, labels, common_support="auto")
    assert not matches.matched[~kept].any()
    apart = np.log([[0.6, 0.4]] * 9 + [[1 - 1e-9, 1e-9]])  # the only example of its label
    assert common_support(apart, [0] * 9 + [1], least="auto").all()
    with pytest.raises(ValueError, match="'auto' or a least probability"):
        match_scores(scores, labels, common_support=0.7)


def test_examples_outside_common_support_neither_match_nor_are_matched():
    scores, labels, environments = make_problem("flat", 400, 3)
    inside = common_support(scores, labels, environments)
    assert 0 < inside.sum() < 400
    matches = match_scores(scores, labels, environments, common_support=True)
    assert not matches.has_match(np.flatnonzero(~inside)).any()
    assert inside[matches.indices[matches.indices >= 0]].all()
    assert matches.report.trimmed == (~inside).sum()
    alone = match_scores(scores[inside], labels[inside], environments[inside])
    back = np.append(np.flatnonzero(inside), -1)
    np.testing.assert_array_equal(matches.indices[inside], back[alone.indices])


def test_statistics_count_what_stands_in_the_table():
    scores, labels, environments = make_problem("peaked", 500, 4)
    matches = match_scores(scores, labels, environments, metric="l1", n_nearest=2, caliper=0.05)
    facts = matches.statistics(labels)
    found = matches.indices[matches.indices >= 0]
    use = np.bincount(found, minlength=500)
    assert facts.quantiles[1.0] == matches.distances[np.isfinite(matches.distances)].max()
    assert facts.reuse_histogram.tolist() == np.bincount(use).tolist()
    for label in range(4):
        weights = use[labels == label].astype(float)
        size = weights.sum() ** 2 / (weights**2).sum()
        np.testing.assert_allclose(facts.effective_sample_size[label], size)
        others = labels != label
        without = (matches.indices[others, label, 0] < 0).sum()
        assert facts.unmatched[label] == without
        assert facts.used[label] == (weights > 0).sum()
    assert sum(matches.report.engines.values()) == 8
    for word in ("quantiles", "reuse", "effective", "unmatched", "search"):
        assert word in str(facts)


def test_infinite_distances_are_matches_and_counted():
    with np.errstate(divide="ignore"):
        scores = np.log(np.eye(2)[[0, 0, 1]])
    matches = match_scores(scores, [0, 0, 1])
    assert matches.indices[0, 1, 0] == 2
    assert matches.statistics([0, 0, 1]).infinite == 3
    assert (match_scores(scores, [0, 0, 1], caliper=1e9).indices == -1).all()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_joblib_backends_do_not_change_the_answer(backend):
    scores, labels, environments = make_problem("peaked", 300, 3)
    expected = match_scores(scores, labels, environments, n_nearest=2)
    with joblib.parallel_config(backend=backend):
        found = match_scores(scores, labels, environments, n_nearest=2, n_jobs=2)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3])
def test_blocks_on_a_torch_device_give_the_same_answer(kind, metric, k):
    scores = Scores.from_log(make_scores(kind, np.random.default_rng(2), 250, 5).astype(float))
    anchors, candidates = scores.take(slice(0, 50)), scores.take(slice(50, None))
    measure = get_metric(metric)
    engine = BlockedEngine(measure, candidates, device="cpu")
    expected = DirectEngine(measure, candidates).nearest(anchors, k)
    found = engine.nearest(anchors, k)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_a_device_is_for_blocks_only():
    scores, labels, _ = make_problem("flat", 50, 3)
    with pytest.raises(ValueError, match="'auto' or 'blocked'"):
        match_scores(scores, labels, device="cpu", engine="kdtree")
    np.testing.assert_array_equal(
        match_scores(scores, labels, device="cpu").indices, match_scores(scores, labels).indices
    )


@pytest.mark.parametrize("metric", ["kl", "l2", "l1"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3])
def test_faiss_is_verified_and_gives_the_same_answer(kind, metric, k):
    pytest.importorskip("faiss")
    scores = Scores.from_log(make_scores(kind, np.random.default_rng(3), 250, 5).astype(float))
    anchors, candidates = scores.take(slice(0, 50)), scores.take(slice(50, None))
    measure = get_metric(metric)
    expected = DirectEngine(measure, candidates).nearest(anchors, k)
    found = ENGINES["faiss"](measure, candidates).nearest(anchors, k)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("metric", METRICS)
def test_an_approximate_engine_reports_the_recall_it_measured(metric):
    pytest.importorskip("hnswlib")
    scores, labels, environments = make_problem("flat", 800, 3)
    exact = match_scores(scores, labels, environments, metric=metric, n_nearest=2)
    found = match_scores(scores, labels, environments, metric=metric, n_nearest=2, engine="hnsw")
    assert exact.report.recall is None
    assert 0.9 < found.report.recall <= 1.0
    assert (found.distances >= exact.distances).all()
    assert "recall" in str(found.statistics(labels))


@pytest.mark.parametrize(("engine", "module"), [("faiss", "faiss"), ("hnsw", "hnswlib")])
def test_a_missing_extra_is_named(engine, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    scores, labels, _ = make_problem("flat", 50, 3)
    with pytest.raises(ImportError, match=rf"equipoise\[{engine}\]"):
        match_scores(scores, labels, engine=engine)


@pytest.mark.parametrize(("engine", "metric"), [("kdtree", "kl"), ("faiss", "linf")])
def test_an_engine_that_does_not_know_the_metric_says_so(engine, metric):
    scores, labels, _ = make_problem("flat", 50, 3)
    with pytest.raises(ValueError, match=f"'{engine}'"):
        match_scores(scores, labels, engine=engine, metric=metric)


def test_two_labels_are_needed_for_a_line():
    scores, labels, _ = make_problem("flat", 50, 3)
    with pytest.raises(ValueError, match="two labels"):
        match_scores(scores, labels, engine="line")


def test_the_choice_is_a_line_for_two_labels_and_never_an_approximation():
    rng = np.random.default_rng(0)
    measure = get_metric("kl")
    for m, expected in ((2, {"line"}), (5, {"blocked", "cells"})):
        scores = Scores.from_log(make_scores("flat", rng, 5000, m))
        assert cheapest(measure, scores, scores, 1, dict(ENGINES)) in expected


def test_a_least_probability_leaves_out_examples_that_a_label_of_their_place_hardly_has():
    probabilities = np.array(
        [[0.85, 0.15, 0.0], [0.5, 0.5, 0.0], [0.95, 0.05, 0.0], [0.2, 0.3, 0.5], [0.3, 0.65, 0.05]]
    )
    with np.errstate(divide="ignore"):
        scores = np.log(probabilities)
    labels, environments = np.array([0, 1, 0, 2, 0]), np.array([0, 0, 0, 1, 1])
    inside = common_support(scores, labels, environments, least=0.1)
    # The first place has no label 2, so nothing is asked of it; the second has no label 1.
    assert inside.tolist() == [True, True, False, True, False]
    matches = match_scores(scores, labels, environments, common_support=0.1)
    assert matches.matched.tolist() == [True, True, False, False, False]
    assert balanced_frequencies(matches).tolist() == [2.0, 2.0, 0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match=r"between 0 and 0\.5"):
        match_scores(scores, labels, environments, common_support=0.6)


@pytest.mark.parametrize("lazy", [False, True])
def test_exact_codes_are_shared_by_every_match(lazy):
    """The same as matching each code apart."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(300, 3))
    scores = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    labels, environments, sex = (rng.integers(0, top, 300) for top in (3, 2, 2))
    if lazy:
        made = LazyMatches(scores, labels, environments, exact=sex)
        every = np.broadcast_to(np.arange(3), (300, 3))
        found = made.lookup(np.arange(300), every)
    else:
        found = match_scores(scores, labels, environments, exact=sex).indices
    for value in (0, 1):
        here = np.flatnonzero(sex == value)
        apart = match_scores(scores[here], labels[here], environments[here]).indices
        np.testing.assert_array_equal(found[here], np.where(apart < 0, -1, here[apart]))
