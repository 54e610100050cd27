"""The tests of a verdict keep their level and see what they should."""

import numpy as np
import pytest

from equipoise.balance import Groups
from equipoise.diagnosis.evidence import compare_links, count_rows_needed, find_leaks
from equipoise.latent import encode_columns, find_varying


def draw_shifted_content(n, seed, m=2):
    """Content whose spread differs between sites, and that predicts the label alike in all."""
    rng = np.random.default_rng(seed)
    sites = rng.integers(3, size=n)
    s = rng.normal(size=(n, m - 1)) * np.array([0.5, 1.0, 2.0])[sites, None]
    logits = np.hstack([np.zeros((n, 1)), 1.5 * s])
    labels = (logits + rng.gumbel(size=(n, m))).argmax(axis=1)
    return s, labels, sites


def draw_link(n, seed, links=(0.9, 0.8, 0.7), m=2):
    rng = np.random.default_rng(seed)
    labels, sites = rng.integers(m, size=n), rng.integers(len(links), size=n)
    kept = rng.random(n) < np.array(links)[sites]
    covariate = np.where(kept, labels, (labels + rng.integers(1, m, size=n)) % m)
    s = np.eye(m)[covariate][:, 1:] + 0.2 * rng.normal(size=(n, m - 1))
    return s, labels, sites


@pytest.mark.parametrize("m", [2, 3])
def test_content_that_only_shifts_is_told_from_a_link_that_varies(m):
    shifted = [compare_links(*draw_shifted_content(2000, seed, m)) for seed in range(20)]
    assert np.mean(np.array(shifted) < 0.05) <= 0.2
    assert np.median(shifted) > 0.2
    assert max(compare_links(*draw_link(2000, seed, m=m)) for seed in range(5)) < 0.01


def test_a_link_shown_by_columns_that_copy_each_other_is_told_from_content():
    """Three noisy copies have many coefficients and one strength."""
    s, y, e = draw_link(1800, 0, links=(0.9, 0.8))
    copies = s + 0.1 * np.random.default_rng(0).normal(size=(1800, 3))
    assert compare_links(copies, y, e) < 0.01


def test_many_terms_are_tested_by_their_logits():
    s, y, e = draw_link(3000, 0, links=(0.9, 0.7, 0.6), m=10)
    assert compare_links(s, y, e) < 0.01
    same, y, e = draw_link(3000, 0, links=(0.8, 0.8, 0.8), m=10)
    assert compare_links(same, y, e) > 0.01


def test_one_environment_or_label_has_no_links_to_compare():
    s, y, e = draw_link(200, 0)
    assert np.isnan(compare_links(s, y, np.zeros_like(e)))
    assert np.isnan(compare_links(s, np.zeros_like(y), e))


def test_as_many_rows_as_it_says_do_find_a_moderate_link():
    s, y, e = draw_link(2000, 0)
    n = count_rows_needed(y, e, 6)
    found = 0
    for seed in range(10):
        s, y, e = draw_link(n, seed)
        x = np.hstack([s, np.random.default_rng(seed).normal(size=(n, 5))])
        features = encode_columns(x, y, e).encode(x, e)
        found += len(find_varying(features, y, e, rng=np.random.default_rng(seed))) > 0
    assert found >= 8


def test_small_cells_and_many_features_need_more_rows():
    y, e = np.tile([0, 1], 1000), np.repeat([0, 1], 1000)
    uneven = np.repeat([0, 1], [1900, 100])
    assert count_rows_needed(y, uneven, 6) > 2 * count_rows_needed(y, e, 6)
    assert count_rows_needed(y, e, 200) > count_rows_needed(y, e, 2)


class TestLeaks:
    labels, sites = np.tile([0, 1, 2], 200), np.repeat([0, 1], 300)
    groups = Groups(labels, sites, tuple("abc"), ("x", "y"))

    def test_a_copy_of_the_label_in_words_or_numbers_is_named(self):
        words = np.array(["red", "green", "blue"])[self.labels]
        nearly = np.where(np.arange(600) % 150 == 0, 1, self.labels)
        noise = self.labels + 0.01 * np.random.default_rng(0).normal(size=600)
        columns = {"words": words, "nearly": nearly, "noise": noise}
        assert find_leaks(columns, self.groups) == ("words", "nearly", "noise")

    def test_what_gives_it_away_in_one_environment_only_is_none(self):
        half = np.where(self.sites == 0, self.labels, 0)
        strong = np.where(np.arange(600) % 10 == 0, 1, self.labels)
        numbers = np.arange(600.0)
        columns = {"half": half, "strong": strong, "identifier": numbers}
        assert find_leaks(columns, self.groups) == ()
