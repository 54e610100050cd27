"""How strongly Z goes with the label: what varies is seen to vary, and what does not, not."""

import numpy as np
import pytest

from equipoise.balance import Groups
from equipoise.balance.strength import VARYING, measure_variation, tabulate_strength


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
    assert measure_variation(tabulate_strength(*draw_z((0.9, 0.8, 0.7), seed=seed))) > VARYING
    assert measure_variation(tabulate_strength(*draw_z((0.8, 0.8, 0.8), seed=seed))) < VARYING


def test_another_code_for_z_in_every_environment_changes_nothing():
    """Content that is written differently everywhere, as rotated digits are, is content still."""
    z, groups = draw_z((0.8, 0.8, 0.8))
    turned = np.concatenate(
        [np.roll(part, site, axis=1) for site, part in enumerate(np.split(z, 3))]
    )
    assert measure_variation(tabulate_strength(turned, groups)) < VARYING


def test_neither_sizes_nor_shares_of_labels_make_z_vary():
    rng = np.random.default_rng(0)
    sites = np.repeat([0, 1], [6000, 800])
    labels = (rng.random(6800) < np.array([0.5, 0.15])[sites]).astype(int)
    z = labels[:, None] + rng.normal(size=(6800, 6))
    groups = Groups(labels, sites, ("no", "yes"), ("large", "small"))
    assert measure_variation(tabulate_strength(z, groups)) < VARYING


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


def test_z_that_tells_nothing_does_not_vary():
    z, groups = draw_z((0.0, 0.0))
    assert measure_variation(tabulate_strength(z, groups)) == 0.0


def test_the_same_seed_gives_the_same_numbers():
    z, groups = draw_z((0.9, 0.7), n=5000)
    first, again, other = (tabulate_strength(z, groups, seed=seed) for seed in (1, 1, 2))
    assert first.equals(again)
    assert not first.equals(other)
