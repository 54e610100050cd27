"""Price and protection are what a new sample shows, and their errors cover the chance."""

import numpy as np
import pytest

from equipoise.diagnosis.price import draw_rows, measure_bargain, weigh_situations


def draw_world(n, links, seed, power=1.0):
    """A column of content, and one of a covariate whose link the power weakens or reverses."""
    rng = np.random.default_rng(seed)
    environments = rng.integers(len(links), size=n)
    agrees = np.array(links)[environments]
    covariate = rng.integers(2, size=n)
    up = agrees**power / (agrees**power + (1 - agrees) ** power)
    labels = np.where(rng.random(n) < up, covariate, 1 - covariate)
    x = np.stack([labels + 0.8 * rng.normal(size=n), covariate + 0.1 * rng.normal(size=n)], axis=1)
    p = np.where(np.arange(2) == covariate[:, None], agrees[:, None], 1 - agrees[:, None])
    return x, labels, environments, np.log(p)


def weigh(labels, log_scores):
    weights = 1 / np.exp(log_scores[np.arange(len(labels)), labels])
    return weights / weights.mean()


@pytest.fixture(scope="module")
def bargain():
    x, y, e, scores = draw_world(4000, (0.95, 0.8), seed=0)
    return measure_bargain(x, y, e, scores, weigh(y, scores), seed=0)


def test_the_three_situations_are_those_of_new_samples(bargain):
    from sklearn.linear_model import LogisticRegression

    x, y, _, scores = draw_world(4000, (0.95, 0.8), seed=0)
    for situation, power in (("as they are", 1), ("even", 0), ("reversed", -1)):
        new, truth, _, _ = draw_world(20_000, (0.95, 0.8), seed=1, power=power)
        for column, weights in (("plain", None), ("balanced", weigh(y, scores))):
            model = LogisticRegression().fit(x, y, sample_weight=weights)
            real = 100 * model.score(new, truth)
            assert bargain.situations.loc[situation, column] == pytest.approx(real, abs=4)


def test_price_and_protection_are_differences_of_the_situations(bargain):
    table = bargain.situations
    gain = table["balanced"] - table["plain"]
    assert bargain.price == pytest.approx(-gain["as they are"])
    assert bargain.protection == pytest.approx(gain["reversed"])
    assert bargain.even_gain == pytest.approx(gain["even"])
    assert bargain.price > 5
    assert bargain.protection > 30
    assert np.isnan(bargain.left_out)  # two environments


def test_weights_of_one_cost_and_save_nothing():
    x, y, e, scores = draw_world(1500, (0.9, 0.7, 0.6), seed=0)
    found = measure_bargain(x, y, e, scores, np.ones(1500), seed=0)
    assert found.price == found.protection == found.left_out == 0.0
    assert found.protection_error == 0.0


def test_an_environment_left_out_shows_a_price_that_held_out_rows_do_not():
    """Content that one environment turns round costs little inside, and much elsewhere."""
    x, y, e, scores = draw_world(3000, (0.9, 0.8, 0.7), seed=0)
    found = measure_bargain(x, y, e, scores, weigh(y, scores), seed=0)
    assert abs(found.left_out - found.price) < 3 * found.left_out_error + 3
    assert found.left_out_error > found.price_error


def test_errors_are_as_large_as_the_estimates_scatter():
    found = []
    for seed in range(12):
        x, y, e, scores = draw_world(800, (0.9, 0.7), seed=seed)
        found.append(measure_bargain(x, y, e, scores, weigh(y, scores), seed=seed))
    scatter = np.std([one.protection for one in found], ddof=1)
    error = np.mean([one.protection_error for one in found])
    assert 0.5 * scatter < error < 2 * scatter


def test_the_same_seed_gives_the_same_bargain():
    x, y, e, scores = draw_world(600, (0.9, 0.7, 0.8), seed=0)
    once, again = (measure_bargain(x, y, e, scores, weigh(y, scores), seed=3) for _ in range(2))
    assert once.situations.equals(again.situations)
    assert once.left_out == again.left_out


def test_reversing_gives_a_label_what_the_other_labels_show():
    p = np.array([[0.6, 0.3, 0.1], [0.75, 0.25, 0.0]])
    labels, places = np.array([0, 1, 2, 0, 1]), np.array([0, 0, 0, 1, 1])
    with np.errstate(divide="ignore"):
        scores = np.log(p[places])
    mass = weigh_situations(scores, labels, places)
    own = p[places, labels]
    np.testing.assert_allclose(mass["even"] * own, [1 / 3, 1 / 3, 1 / 3, 0.5, 0.5])
    np.testing.assert_allclose(mass["reversed"] * own, [0.2, 0.35, 0.45, 0.25, 0.75], rtol=1e-6)


def test_rare_labels_stay_rare_where_the_link_is_reversed():
    rng = np.random.default_rng(0)
    n = 50_000
    y, nowhere = (rng.random(n) < 0.1).astype(int), np.zeros(n, dtype=int)
    shows = np.where(rng.random(n) < 0.9, y, 1 - y)
    odds = 0.1 / 0.9 * np.where(shows == 1, 9.0, 1 / 9)
    scores = np.log(np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1))
    mass = weigh_situations(scores, y, nowhere)
    for situation, agree in (("as they are", 0.9), ("even", None), ("reversed", 0.1)):
        assert np.average(y, weights=mass[situation]) == pytest.approx(0.1, abs=0.01)
        seen = [np.average(shows[y == k] == k, weights=mass[situation][y == k]) for k in (0, 1)]
        if agree is None:
            assert seen[0] == pytest.approx(1 - seen[1], abs=0.02)
        else:
            np.testing.assert_allclose(seen, agree, atol=0.02)


def test_situations_keep_the_frequencies_of_the_labels():
    """A covariate that tells nothing changes nothing, however rare a label is."""
    rng = np.random.default_rng(0)
    places = rng.integers(2, size=4000)
    labels = (rng.random(4000) < np.array([0.05, 0.3])[places]).astype(int)
    share = np.array([labels[places == e].mean() for e in (0, 1)])[places]
    alone = np.log(np.stack([1 - share, share], axis=1))
    for mass in weigh_situations(alone, labels, places).values():
        np.testing.assert_allclose(mass, 1.0)
    covariate = np.where(rng.random(4000) < 0.8, labels, 1 - labels)
    odds = share / (1 - share) * np.where(covariate == 1, 4.0, 0.25)
    scores = np.log(np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1))
    mass = weigh_situations(scores, labels, places)
    here = places == 1
    means = [np.average(covariate[here & (labels == y)]) for y in (0, 1)]
    assert means[1] - means[0] > 0.5
    means = [
        np.average(covariate[own], weights=mass["even"][own])
        for own in (here & (labels == y) for y in (0, 1))
    ]
    assert means[1] == pytest.approx(means[0], abs=0.06)
    means = [
        np.average(covariate[own], weights=mass["reversed"][own])
        for own in (here & (labels == y) for y in (0, 1))
    ]
    assert means[1] - means[0] < -0.3


def test_a_draw_of_rows_keeps_every_cell():
    rng = np.random.default_rng(0)
    labels, places = rng.integers(3, size=9000), rng.choice(3, size=9000, p=[0.9, 0.09, 0.01])
    rows = draw_rows(labels, places, 900, 0)
    assert len(np.unique(rows)) == 900
    cells, drawn = (np.bincount(3 * places[i] + labels[i]) for i in (slice(None), rows))
    np.testing.assert_allclose(drawn, cells / 10, atol=1.01)


def test_many_columns_and_missing_values_are_no_obstacle():
    x, y, e, scores = draw_world(900, (0.9, 0.7), seed=0)
    noise = np.random.default_rng(1).normal(size=(900, 400))
    wide = np.hstack([x, noise])
    wide[::7, 5] = np.nan
    found = measure_bargain(wide, y, e, scores, weigh(y, scores), seed=0)
    assert found.protection > 10


def test_images_have_a_price_and_protection_that_a_network_shows():
    """A bright frame goes with the label; the bar that is the label's own lies anywhere."""
    rng = np.random.default_rng(0)
    n = 3000
    y, e = rng.integers(2, size=(2, n))
    agree = np.where(e == 0, 0.95, 0.85)
    frame = np.where(rng.random(n) < agree, y, 1 - y)
    images = 0.1 * rng.normal(size=(n, 1, 16, 16))
    place = rng.integers(2, 14, size=n)
    rows = np.arange(n)
    images[rows[y == 0], 0, place[y == 0], 2:14] += 1.0
    images[rows[y == 1], 0, 2:14, place[y == 1]] += 1.0
    images[frame == 1, 0, 0] += 1.0
    noisy = rng.random(n) < 0.2
    y = np.where(noisy, 1 - y, y)
    covariate = np.where(noisy, 1 - frame, frame)  # still agrees with the label as often
    images[:, 0, 0] = 0.1 * rng.normal(size=(n, 16)) + covariate[:, None]
    p = np.where(np.arange(2) == covariate[:, None], agree[:, None], 1 - agree[:, None])
    weights = 0.5 / p[rows, y]
    found = measure_bargain(images, y, e, np.log(p), weights, seed=0)
    assert found.situations.loc["reversed", "plain"] < 30
    assert found.protection > 35
    assert 3 < found.price < 20


def test_squares_and_products_that_vary_are_shown_to_the_small_classifiers():
    rng = np.random.default_rng(0)
    n = 2000
    y, e, bit = rng.integers(2, size=(3, n))
    covariate = np.where(rng.random(n) < np.where(e == 0, 0.95, 0.7), y, 1 - y)
    x = np.c_[y + 1.5 * rng.normal(size=n), bit, bit ^ covariate]
    agree = np.where(e == 0, 0.95, 0.7)
    one = np.where(covariate == 1, agree, 1 - agree)
    scores = np.log(np.c_[1 - one, one])
    weights = 0.5 / np.exp(scores[np.arange(n), y])
    product = (2.0 * bit - 1) * (2.0 * x[:, 2] - 1)
    shown = measure_bargain(x, y, e, scores, weights, seed=0, curves=product[:, None])
    assert shown.price > 5
    assert shown.protection > 20
