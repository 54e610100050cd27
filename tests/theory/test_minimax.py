"""Networks of the minimax experiment: balanced batches come near the closed form, ERM does not."""

import pytest

from equipoise.theory.minimax import WORLDS, MinimaxCase, list_settings, train_network


@pytest.mark.parametrize("name", list(WORLDS))
def test_balanced_batches_come_near_the_balanced_classifier_and_erm_does_not(name):
    world = WORLDS[name]
    best = world.worst_bayes_risk(0.0)[1]
    worst = {}
    for batches in ("random", "balanced"):
        settings = list_settings(name, batches)
        case = MinimaxCase(name, batches, settings, 3000, 300, 150, 4000, seed=0)
        record = train_network(case)
        assert len(record["error"]) == len(world.grid)
        worst[batches] = max(record["error"])
    assert worst["balanced"] < best + 0.06
    assert worst["random"] > best + 0.3
