"""The worlds of the battery have the truth that they claim."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.worlds import WORLDS, make_world

PLANTED = [name for name, spec in WORLDS.items() if spec.kind == "planted"]
SMALL = [name for name, spec in WORLDS.items() if spec.rows <= 8000]


def agreement(sample, m: int) -> float:
    """Share of examples whose first covariate has the label's value."""
    return float(np.mean(sample.covariate % m == sample.y))


def test_there_are_at_least_forty_worlds():
    assert len(WORLDS) >= 40


@pytest.mark.parametrize("name", SMALL)
def test_a_world_has_the_size_that_its_entry_states(name):
    world, spec = make_world(name, 0), WORLDS[name]
    assert len(world.X) == len(world.y) == len(world.environments) == spec.rows
    assert set(world.y) == set(range(spec.labels))
    assert set(world.environments) == set(range(spec.n_environments))
    assert np.isfinite(world.X).all()
    assert world.true_weights().mean() == pytest.approx(1)
    cells = set(zip(world.y, world.environments, strict=True))
    assert not cells & set(spec.missing)


@pytest.mark.parametrize("name", ["column", "three labels", "colour", "variance"])
def test_the_link_holds_vanishes_and_reverses_in_the_test_samples(name):
    world = make_world(name, 0)
    m = world.spec.labels
    link = np.mean(world.spec.planted[0].links)
    assert agreement(world.train, m) == pytest.approx(link, abs=0.03)
    assert agreement(world.tests["as they are"], m) == pytest.approx(link, abs=0.03)
    assert agreement(world.tests["even"], m) == pytest.approx(1 / m, abs=0.03)
    assert agreement(world.tests["reversed"], m) < 1 / m - 0.1


def test_the_link_differs_between_environments_unless_it_is_equal():
    world = make_world("column", 0)
    shares = [np.mean((world.covariate == world.y)[world.environments == e]) for e in range(3)]
    np.testing.assert_allclose(shares, world.spec.planted[0].links, atol=0.03)
    assert WORLDS["equal link"].kind == "equal link"


@pytest.mark.parametrize("name", [n for n, s in WORLDS.items() if not s.planted])
def test_where_nothing_is_planted_there_is_no_covariate_and_no_reversal(name):
    world = make_world(name, 0)
    assert world.covariate is None
    assert set(world.tests) == {"as they are", "new site"}


@pytest.mark.parametrize("name", ["column", "four values, coded", "five labels"])
def test_true_weights_make_the_label_independent_of_the_covariate(name):
    world = make_world(name, 0)
    weights, m = world.true_weights(), world.spec.labels
    table = np.zeros((m, m))
    np.add.at(table, (world.covariate % m, world.y), weights)
    shares = table / table.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, 1 / m, atol=0.03)


def test_two_seeds_are_two_populations_and_one_seed_is_one():
    first, again, other = make_world("column", 0), make_world("column", 0), make_world("column", 1)
    np.testing.assert_array_equal(first.X, again.X)
    assert not np.allclose(first.X.mean(axis=0), other.X.mean(axis=0), rtol=0.05)


def test_all_samples_of_a_world_come_from_one_population():
    world = make_world("random features", 0)
    train, test = world.X, world.tests["as they are"].X
    error = train.std(axis=0) * np.sqrt(1 / len(train) + 1 / len(test))
    assert np.abs((train.mean(axis=0) - test.mean(axis=0)) / error).max() < 5


def test_an_unknown_world_is_refused_with_the_names():
    with pytest.raises(ValueError, match="no world 'colum': expected one of column"):
        make_world("colum", 0)
