"""How strongly Z goes with the label: what varies is seen to vary, and what does not, not."""

import numpy as np
import pandas as pd
import pytest

from equipoise.balance import Groups
from equipoise.diagnosis.strength import measure_variation, tabulate_strength


def draw_z(strengths, n=1500, m=3, seed=0):
    """A covariate that is the label as often as `strengths` says, and z that shows it."""
    rng = np.random.default_rng(seed)
    sites = np.repeat(np.arange(len(strengths)), n)
    labels = rng.integers(m, size=len(sites))
    kept = rng.random(len(sites)) < np.asarray(strengths)[sites]
    covariate = np.where(kept, labels, rng.integers(m, size=len(sites)))
    z = np.eye(m)[covariate] + 0.2 * rng.normal(size=(len(sites), m))
    names = tuple("abc"[:m]), tuple(f"site {i}" for i in range(len(strengths)))
    return z, Groups(labels, sites, *names)


def test_it_is_the_mutual_information_of_label_and_covariate():
    strengths = (0.9, 0.7, 0.5)
    found = tabulate_strength(*draw_z(strengths, n=4000))
    for told, strength in zip(found["told"], strengths, strict=True):
        joint = strength * np.eye(3) / 3 + (1 - strength) / 9
        truth = np.log(3) + (joint * np.log(3 * joint)).sum()
        assert told == pytest.approx(truth / np.log(3), abs=0.05)
    assert found["environment"].tolist() == ["site 0", "site 1", "site 2"]


@pytest.mark.parametrize("seed", range(3))
def test_a_strength_that_changes_is_told_from_one_that_does_not(seed):
    changes = measure_variation(tabulate_strength(*draw_z((0.9, 0.8, 0.7), seed=seed)))
    stays = measure_variation(tabulate_strength(*draw_z((0.8, 0.8, 0.8), n=3000, seed=seed)))
    assert changes.is_seen
    assert not changes.is_steady
    assert stays.is_steady
    assert not stays.is_seen


def test_too_few_examples_to_see_a_change_do_not_make_a_strength_steady():
    """Not to be told from chance is one thing, to be known for the same is another."""
    n_unseen = 0
    for seed in range(10):
        few = measure_variation(tabulate_strength(*draw_z((0.9, 0.75), n=80, m=2, seed=seed)))
        assert not few.is_steady
        n_unseen += not few.is_seen
    assert n_unseen > 0
    wide = pd.DataFrame({"told": [0.2, 0.5], "error": [0.12, 0.12]})
    assert not measure_variation(wide).is_seen
    assert not measure_variation(wide).is_steady


def test_the_limit_covers_the_true_spread_as_often_as_it_promises():
    rng = np.random.default_rng(0)
    truth, error = np.array([0.50, 0.55, 0.60]), 0.015
    spread = truth.std(ddof=1) / truth.mean()
    limits = np.array(
        [
            measure_variation(pd.DataFrame({"told": told, "error": error})).at_most
            for told in truth + error * rng.normal(size=(600, 3))
        ]
    )
    assert 0.92 < (limits > spread).mean() < 0.98


def test_strengths_closer_than_chance_would_have_them_prove_no_more_than_usual():
    same = measure_variation(pd.DataFrame({"told": [0.5, 0.5], "error": [0.03, 0.03]}))
    assert same.at_most > 1.645 * 0.03 / 0.5


def test_another_code_for_z_in_every_environment_changes_nothing():
    """Content that is written differently everywhere, as rotated digits are, is content still."""
    z, groups = draw_z((0.8, 0.8, 0.8), n=3000)
    turned = np.concatenate(
        [np.roll(part, site, axis=1) for site, part in enumerate(np.split(z, 3))]
    )
    assert measure_variation(tabulate_strength(turned, groups)).is_steady


def test_neither_sizes_nor_shares_of_labels_make_z_vary():
    rng = np.random.default_rng(0)
    sites = np.repeat([0, 1], [6000, 800])
    labels = (rng.random(6800) < np.array([0.5, 0.15])[sites]).astype(int)
    z = labels[:, None] + rng.normal(size=(6800, 6))
    groups = Groups(labels, sites, ("no", "yes"), ("large", "small"))
    assert not measure_variation(tabulate_strength(z, groups)).is_seen


def test_an_environment_of_few_examples_or_other_labels_is_not_compared():
    z, groups = draw_z((0.9, 0.7))
    few = Groups(
        groups.labels, np.where(np.arange(3000) < 20, 0, 1), groups.label_names, ("tiny", "large")
    )
    assert measure_variation(tabulate_strength(z, few)) is None
    apart = Groups(
        np.where(groups.environments == 0, 0, groups.labels),
        groups.environments,
        groups.label_names,
        groups.environment_names,
    )
    assert measure_variation(tabulate_strength(z, apart)) is None


def test_z_that_tells_nothing_is_neither_seen_to_vary_nor_known_to_be_steady():
    found = measure_variation(tabulate_strength(*draw_z((0.0, 0.0))))
    assert not found.is_seen
    assert not found.is_steady


def test_the_same_seed_gives_the_same_numbers():
    z, groups = draw_z((0.9, 0.7), n=5000)
    first, again, other = (tabulate_strength(z, groups, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
