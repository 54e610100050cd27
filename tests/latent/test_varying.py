"""The test for links that vary finds what was planted, and little where nothing was."""

import numpy as np
import pytest

from equipoise.latent import encode_columns, find_varying
from equipoise.latent.cells import Cells
from equipoise.latent.curves import make_curved
from equipoise.latent.interaction import find_residual, find_whole
from equipoise.latent.search import Search

N = 3000


def make_codes(seed=0, n=N):
    """Labels, environments, and a covariate whose link with the label varies."""
    rng = np.random.default_rng(seed)
    y, e = rng.integers(2, size=n), rng.integers(2, size=n)
    covariate = np.where(rng.random(n) < np.where(e == 0, 0.9, 0.6), y, 1 - y)
    return rng, y, e, covariate


def make_content(rng, y, p=6):
    """Columns that show the label alike everywhere."""
    return 0.7 * y[:, None] + rng.normal(size=(len(y), p))


def find(x, y, e, seed=0):
    """The part found, and the columns of X behind its features or pairs."""
    encoding = encode_columns(x, y, e)
    features = encoding.encode(x, e)
    part = find_varying(features, y, e, rng=np.random.default_rng(seed))
    used = set(np.flatnonzero(part.linear.any(axis=1))) | {j for pair in part.pairs for j in pair}
    return part, {int(encoding.column[j]) for j in used}, part.coordinates(features.values)


def test_a_planted_column_is_found_and_no_other():
    rng, y, e, covariate = make_codes()
    x = np.insert(make_content(rng, y), 3, covariate + 0.3 * rng.normal(size=N), axis=1)
    part, columns, coordinates = find(x, y, e)
    assert (part.named, columns) == (("feature",), {3})
    assert abs(np.corrcoef(coordinates[:, 0], covariate)[0, 1]) > 0.7
    assert part.p_value <= 0.01


def test_where_nothing_was_planted_little_is_found():
    found = 0
    for seed in range(20):
        rng, y, e, _ = make_codes(seed, n=600)
        found += len(find(make_content(rng, y), y, e, seed)[0]) > 0
    assert found <= 2


def test_order_and_scale_of_columns_do_not_matter():
    rng, y, e, covariate = make_codes()
    x = np.insert(make_content(rng, y), 0, covariate + 0.3 * rng.normal(size=N), axis=1)
    scales = 10.0 ** np.arange(-3, 4)
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(7)
        part, columns, _ = find((x * scales + 5)[:, order], y, e)
        assert len(part) == 1
        assert {int(order[j]) for j in columns} == {0}


def test_a_category_may_be_coded_or_one_hot():
    rng, y, e, covariate = make_codes()
    scanner = 2 * covariate + rng.integers(2, size=N)  # four of them
    content = make_content(rng, y)
    coded = find(np.c_[content, scanner], y, e)
    one_hot = find(np.c_[content, np.eye(4)[scanner]], y, e)
    assert coded[1] == {6}
    assert one_hot[1] == {6, 7, 8, 9}
    np.testing.assert_allclose(coded[2], one_hot[2])


@pytest.mark.parametrize("kind", ["square", "product"])
def test_a_covariate_in_a_square_or_product_is_found(kind):
    rng, y, e, covariate = make_codes()
    x = np.c_[make_content(rng, y, p=3), rng.normal(size=(N, 2))]
    if kind == "square":
        x[:, 3] *= np.where(covariate, 2.0, 0.5)
    else:
        x[:, 4] = np.abs(x[:, 4]) * np.sign(x[:, 3]) * np.where(covariate, 1, -1)
    part, columns, _ = find(x, y, e)
    assert part.named == (kind,)
    assert columns == ({3} if kind == "square" else {3, 4})


def test_what_environments_add_to_columns_is_no_varying_link():
    found = 0
    for seed in range(10):
        rng, y, e, _ = make_codes(seed, n=1000)
        x = make_content(rng, y) + 3.0 * e[:, None] * rng.normal(size=6)
        found += len(find(x, y, e, seed)[0]) > 0
    assert found <= 1


def test_another_unit_in_an_environment_is_no_varying_link():
    found, plain = 0, 0
    for seed in range(10):
        rng, y, e, _ = make_codes(seed)
        x = make_content(rng, y)
        unit = np.array([1.0, 4.0])[e][:, None]
        found += len(find(x * unit + 20 * e[:, None], y, e, seed)[0]) > 0
        plain += len(find(x, y, e, seed)[0]) > 0
    assert plain <= 1
    assert found <= 2


@pytest.mark.parametrize("bend", [np.exp, np.sinh, np.tanh], ids=["log", "outward", "saturated"])
def test_an_instrument_that_bends_in_one_environment_is_no_varying_link(bend):
    found = 0
    for seed in range(10):
        rng, y, e, _ = make_codes(seed)
        x = make_content(rng, y)
        found += len(find(np.where(e[:, None] == 1, bend(x), x), y, e, seed)[0]) > 0
    assert found <= 1


def test_separate_groups_of_values_keep_their_gap():
    """Ranks close the gap, and with it half of the power."""
    rng, y, e, covariate = make_codes()
    x = np.c_[make_content(rng, y, p=2), covariate + 0.2 * rng.normal(size=N)]
    _, columns, coordinates = find(x, y, e)
    assert columns == {2}
    assert abs(np.corrcoef(coordinates[:, 0], covariate)[0, 1]) > 0.9
    found = 0
    for seed in range(10):
        rng, y, e, covariate = make_codes(seed, n=500)
        x = np.c_[make_content(rng, y, p=2), covariate + 0.2 * rng.normal(size=500)]
        found += find(x, y, e, seed)[1] == {2}
    assert found >= 9


@pytest.mark.parametrize("size", [1e-200, 1e307])
@pytest.mark.filterwarnings("error")
def test_numbers_near_the_ends_of_their_range_are_on_the_same_scale(size):
    rng, y, e, _ = make_codes()
    x = np.c_[make_content(rng, y, p=1), rng.uniform(size=N)]
    plain, moved = (encode_columns(values, y, e).encode(values, e) for values in (x, x / 9 * size))
    np.testing.assert_allclose(plain.values, moved.values, atol=1e-6)


def test_a_column_has_one_scale_where_environments_do_not_differ_and_its_own_where_they_do():
    rng, y, e, _ = make_codes()
    x = make_content(rng, y)
    alike, apart = (encode_columns(values, y, e) for values in (x, x * (1 + e[:, None])))
    np.testing.assert_array_equal(alike.heights[0], alike.heights[1])
    assert (apart.knots[0] != apart.knots[1]).any()
    again = apart.encode(x * (1 + e[:, None]), e).values
    np.testing.assert_allclose(again[e == 0].std(axis=0), again[e == 1].std(axis=0), rtol=0.05)


def test_a_covariate_is_found_whatever_the_units_of_environments():
    rng, y, e, covariate = make_codes()
    x = np.insert(make_content(rng, y), 3, covariate + 0.3 * rng.normal(size=N), axis=1)
    _, columns, _ = find(x * np.array([1.0, 18.0])[e][:, None], y, e)
    assert columns == {3}


def make_styles(seed, n=2000, q=60):
    """Seven labels with a preferred one of four styles, which shift a few of many features."""
    rng = np.random.default_rng(seed)
    y, e = rng.integers(7, size=n), rng.integers(2, size=n)
    style = np.where(rng.random(n) < np.where(e == 0, 0.95, 0.8), y % 4, rng.integers(4, size=n))
    turn = np.linalg.qr(rng.normal(size=(q, q)))[0]
    of_label, of_style = 2.0 * rng.normal(size=(7, 8)), 5.0 * np.eye(4)[:, :3]
    effects = np.concatenate([of_style[style], of_label[y], np.zeros((n, q - 11))], axis=1)
    return (effects + rng.normal(size=(n, q))) @ turn, y, e, style


def test_styles_of_few_rows_are_told_apart_by_a_mixture_of_kinds():
    explained, last = [], []
    for seed in range(3):
        x, y, e, style = make_styles(seed)
        part, _, coordinates = find(x, y, e, seed)
        last.append(part.table["hypothesis"].iloc[-1])
        design = np.column_stack([coordinates, np.eye(7)[y]])
        truth = np.eye(4)[style]
        rest = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
        explained.append(1 - rest.var(axis=0).sum() / truth.var(axis=0).sum())
    assert min(explained) > 0.8
    kinds = [own for own, how in zip(explained, last, strict=True) if how.endswith("kinds")]
    assert kinds
    assert max(kinds) == max(explained)


def test_columns_that_labels_and_environments_determine_do_not_vary():
    _, y, e, _ = make_codes(n=400)
    part, _, coordinates = find(np.stack([y, e], axis=1).astype(float), y, e)
    assert len(part) == 0
    assert part.p_value == 1.0
    assert coordinates.shape == (400, 0)


def test_a_covariate_that_leads_the_features_is_found_among_many_that_mean_nothing():
    """Components are ordered with the label's effects in: a covariate has a share of them."""
    rng = np.random.default_rng(1)
    n = 1500
    y, e = rng.integers(4, size=n), rng.integers(2, size=n)
    covariate = np.where(rng.random(n) < np.where(e == 0, 0.9, 0.7), y, rng.integers(4, size=n))
    style = np.eye(4)[covariate] @ rng.normal(size=(4, 300)) * 0.5
    x = style + rng.normal(size=(n, 300))
    part = find_varying(encode_columns(x, y, e).encode(x, e), y, e, rng=rng)
    assert 2 <= len(part) <= 4


def test_directions_are_taken_together_where_features_are_many():
    """A styles' world of many features: as much is found, in fewer tests."""
    x, y, e, style = make_styles(0, q=300)
    part, _, coordinates = find(x, y, e)
    assert 2 <= len(part) <= 6
    assert part.table["hypothesis"].nunique() <= 3
    design = np.column_stack([coordinates, np.eye(7)[y]])
    truth = np.eye(4)[style]
    rest = truth - design @ np.linalg.lstsq(design, truth, rcond=None)[0]
    assert rest.var(axis=0).sum() < 0.2 * truth.var(axis=0).sum()


def test_a_covariate_of_few_columns_among_hundreds_is_found_in_these_columns():
    """The leading components of independent columns are any of them, and may leave it out."""
    rng = np.random.default_rng(0)
    y, e = rng.integers(2, size=N), rng.integers(2, size=N)
    covariate = np.where(rng.random(N) < np.where(e == 0, 0.9, 0.6), y, 1 - y)
    x = 0.2 * y[:, None] + rng.normal(size=(N, 600))
    x[:, :8] += 0.8 * (covariate[:, None] - 0.5)
    part, *_ = find(x, y, e)
    assert (part.linear[:8] ** 2).sum() > 0.9 * (part.linear**2).sum()


@pytest.mark.parametrize("numbers", [0, 20])
def test_a_category_is_found_among_hundreds(numbers):
    rng, y, e, covariate = make_codes()
    bits = rng.random((N, 280)) < 0.3 + 0.2 * y[:, None]
    marks = rng.random((N, 4)) < 0.1 + 0.8 * covariate[:, None]
    x = np.c_[bits, marks, make_content(rng, y, p=numbers)].astype(float)
    _, columns, coordinates = find(x, y, e)
    assert len({280, 281, 282, 283} & columns) >= 3
    assert len(columns) < 30
    design = np.column_stack([coordinates, np.ones(N)])
    fitted = design @ np.linalg.lstsq(design, covariate, rcond=None)[0]
    assert np.corrcoef(fitted, covariate)[0, 1] > 0.9


def plant_two(seed=0, n=6000):
    """Two binary covariates whose links change oppositely, mixed into eight features."""
    rng = np.random.default_rng(seed)
    y, e = rng.integers(2, size=n), rng.integers(3, size=n)
    links = np.array([[0.9, 0.8, 0.7], [0.6, 0.75, 0.9]])
    both = np.where(rng.random((2, n)) < links[:, e], y, 1 - y)
    loads = 1.5 * np.linalg.qr(rng.normal(size=(8, 8)))[0][:2]
    return y, e, both, (2 * both.T - 1) @ loads + 0.5 * rng.normal(size=(n, 8))


def test_two_covariates_that_change_oppositely_are_told_apart():
    """Their strongest direction is a difference, which leaves what they share."""
    y, e, both, x = plant_two()
    _, _, coordinates = find(x, y, e)
    design = np.column_stack([coordinates, np.ones(len(y))])
    for covariate in both:
        fitted = design @ np.linalg.lstsq(design, covariate, rcond=None)[0]
        assert np.corrcoef(fitted, covariate)[0, 1] > 0.9


def test_independent_components_do_not_depend_on_the_order_of_columns():
    y, e, _, x = plant_two()
    sizes = {len(find(x[:, np.random.default_rng(s).permutation(8)], y, e)[0]) for s in range(5)}
    assert len(sizes) == 1


def test_columns_correlated_with_those_that_vary_are_left_alone():
    """Freed of the column that varies, its neighbour seems to vary as well."""
    rng, y, e, covariate = make_codes()
    common = rng.normal(size=N)
    varying = 1.5 * covariate + common + 0.3 * rng.normal(size=N)
    neighbour = 0.7 * y + common + 0.3 * rng.normal(size=N)
    x = np.column_stack([make_content(rng, y, 3), varying, neighbour])
    part, columns, _ = find(x, y, e)
    assert (part.named, columns) == (("feature",), {3})


@pytest.mark.parametrize("kind", ["two bits", "bit and number"])
def test_a_covariate_in_two_columns_of_which_one_is_a_category_is_found(kind):
    rng, y, e, covariate = make_codes()
    bit = rng.integers(2, size=N)
    other = bit ^ covariate
    if kind == "bit and number":
        other = other + 0.3 * rng.normal(size=N)
    part, columns, coordinates = find(np.c_[make_content(rng, y, p=3), bit, other], y, e)
    assert "product" in part.named
    assert {3, 4} <= columns
    pairs = coordinates[:, part.linear.shape[1] :]
    assert abs(np.corrcoef(pairs[:, 0], covariate)[0, 1]) > 0.7


def test_categories_whose_products_do_not_vary_are_not_found():
    found = 0
    for seed in range(20):
        rng, y, e, _ = make_codes(seed, n=600)
        chance = np.linspace(0.05, 0.5, 6) + 0.2 * y[:, None] + 0.1 * e[:, None]
        found += len(find(rng.random((600, 6)) < chance, y, e, seed)[0]) > 0
    assert found <= 2


def test_a_spread_that_shows_in_several_columns_is_taken_from_all_of_them():
    rng, y, e, covariate = make_codes()
    quiet = rng.normal(size=(N, 3))
    loud = rng.normal(size=(N, 4)) * np.where(covariate, 2.0, 0.8)[:, None]
    loud = np.c_[loud, loud[:, :1] + 0.001 * rng.normal(size=(N, 1))]  # the first one again
    part, columns, _ = find(np.c_[make_content(rng, y, p=3), quiet, loud], y, e)
    assert len(part) == 4
    assert not part.linear.any()
    assert columns >= {7, 8, 9}
    assert columns & {6, 10}
    assert not columns & set(range(6))


def test_squares_of_columns_with_separate_values_are_not_tried():
    """The spread of such a column follows from its mean."""
    rng, y, e, covariate = make_codes()
    x = np.c_[covariate + 0.2 * rng.normal(size=N), make_content(rng, y, p=1)]
    features, cells = encode_columns(x, y, e).encode(x, e), Cells.of(y, e)
    assert make_curved(find_residual(features, cells), features, cells)[1] == [(1, 1), (0, 1)]


def compare_with_lines(x, y, e):
    """Whether the clearest square or product shows more of what varies than lines do."""
    features, cells = encode_columns(x, y, e).encode(x, e), Cells.of(y, e)
    residual = find_residual(features, cells)
    curved, pairs = make_curved(residual, features, cells)
    strongest = pairs[int(cells.strengths(curved).argmax())]
    name = "squares" if strongest[0] == strongest[1] else "products"
    whole = find_whole(features.values, residual, cells)
    search = Search(features, residual, cells, np.random.default_rng(0), whole)
    return search.shows_less(curved, pairs, name)


def test_lines_are_preferred_where_they_show_more_and_products_where_these_do():
    """Two of three devices show the covariate upright, and one upside down."""
    rng, y, e, covariate = make_codes()
    device = rng.integers(3, size=N)
    mark = (2 * covariate - 1) * np.array([1, -1, 1])[device] + 0.5 * rng.normal(size=N)
    assert compare_with_lines(np.c_[make_content(rng, y, p=3), device, mark], y, e)
    mark = covariate + 0.7 * rng.normal(size=N)
    assert not compare_with_lines(np.c_[make_content(rng, y, p=3), device, mark], y, e)


def test_a_column_that_varies_is_taken_without_its_square():
    rng, y, e, covariate = make_codes()
    values = np.where(rng.random(N) < np.where(covariate, 0.2, 0.8), 0.0, rng.lognormal(size=N))
    part, columns, _ = find(np.c_[make_content(rng, y), values], y, e)
    assert (part.named, columns) == (("feature",), {6})


@pytest.mark.parametrize(("n", "seed"), [(3000, 2), (6000, 0), (10_000, 1)])
def test_a_mark_of_the_label_is_left_alone_beside_a_covariate(n, seed):
    rng, parts = np.random.default_rng(seed), []
    for link in (0.9, 0.8):
        y = rng.integers(2, size=n)
        mark = np.where(rng.random(n) < 0.25, 1 - y, y)
        covariate = np.where(rng.random(n) < link, y, 1 - y)
        views = 2.0 * covariate[:, None] - 1 + 0.5 * rng.normal(size=(n, 6))
        parts.append((np.column_stack([2.0 * mark - 1, views]), y))
    x, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    part, _, coordinates = find(x, y, np.repeat([0, 1], n), seed)
    within = [np.corrcoef(coordinates[y == label, 0], x[y == label, 0])[0, 1] for label in (0, 1)]
    assert len(part) == 1
    assert np.abs(within).max() < 0.2
