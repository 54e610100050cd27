"""The automatic choice of an engine, with a clock that only the engines move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines import choice
from tests.balance.match_reference import make_scores

CANDIDATES, ANCHORS, LABELS = 2_000, 20_000, 10
L1 = get_metric("l1")
PREDICTED = choice.blocked_seconds(L1, LABELS, CANDIDATES)


@dataclass
class Clock:
    now: float = 0.0


@dataclass
class PacedEngine:
    """Takes `each` second an anchor, twice that in its first looks."""

    clock: Clock
    each: float
    slow_looks: int = 0

    def nearest(self, anchors, k):
        self.clock.now += self.each * len(anchors) * (2 if self.slow_looks > 0 else 1)
        self.slow_looks -= 1


@pytest.fixture
def choose(monkeypatch) -> Callable[..., tuple[str, list[str]]]:
    """Choose among engines of some pace: the name, and which of them were tried."""
    clock = Clock()
    monkeypatch.setattr(choice.time, "thread_time", lambda: clock.now)
    monkeypatch.setattr(choice, "find_spec", lambda name: None)  # as without faiss
    scores = Scores.from_log(make_scores("flat", np.random.default_rng(0), ANCHORS, LABELS))

    def run(
        n_anchors: int = ANCHORS,
        slow_looks: int = 0,
        n_in_all: int | None = None,
        *,
        blocked: float,
        kdtree: float,
    ):
        tried = []

        def make_blocks(metric, candidates):
            tried.append("blocked")
            return PacedEngine(clock, blocked, slow_looks)

        def make_tree(metric, candidates):
            tried.append("kdtree")
            return PacedEngine(clock, kdtree)

        candidates, anchors = scores.take(slice(0, CANDIDATES)), scores.take(slice(0, n_anchors))
        makers = {"blocked": make_blocks, "kdtree": make_tree}
        return choice.cheapest(L1, candidates, anchors, 1, makers, n_in_all), tried

    return run


def test_a_short_search_is_not_worth_a_trial(choose):
    assert choose(n_anchors=500, blocked=1.0, kdtree=0.0) == ("blocked", [])


def test_the_first_few_of_many_anchors_choose_for_all(choose):
    few = choose(n_anchors=500, n_in_all=ANCHORS, blocked=PREDICTED, kdtree=0.3 * PREDICTED)
    assert few == ("kdtree", ["kdtree"])


def test_a_tree_that_is_clearly_fast_is_taken_without_trying_the_others(choose):
    assert choose(blocked=PREDICTED, kdtree=0.3 * PREDICTED) == ("kdtree", ["kdtree"])


@pytest.mark.parametrize(("tree", "expected"), [(0.9, "kdtree"), (1.1, "blocked"), (9, "blocked")])
def test_the_faster_of_the_tried_engines_is_taken(choose, tree, expected):
    name, tried = choose(blocked=PREDICTED, kdtree=tree * PREDICTED)
    assert name == expected
    assert sorted(tried) == ["blocked", "kdtree"]


def test_a_disturbed_first_look_is_made_good_by_the_second(choose):
    name, _ = choose(slow_looks=2, blocked=PREDICTED, kdtree=1.5 * PREDICTED)
    assert name == "blocked"
