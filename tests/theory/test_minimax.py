"""Networks of the minimax experiment: balanced batches come near the closed form, ERM does not."""

import pytest

from equipoise.theory.minimax import WORLDS, MinimaxCase, train_network


@pytest.mark.parametrize("name", list(WORLDS))
def test_balanced_batches_come_near_the_balanced_classifier_and_erm_does_not(name):
    world = WORLDS[name]
    best = world.worst_bayes_risk(0.0)[1]
    worst = {}
    for batches in ("random", "balanced"):
        record = train_network(MinimaxCase(name, batches, 3000, 150, 4000, seed=0))
        assert len(record["error"]) == len(world.grid)
        worst[batches] = max(record["error"])
    assert worst["balanced"] < best + 0.06
    assert worst["random"] > best + 0.3
