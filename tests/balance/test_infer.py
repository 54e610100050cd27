"""Environments inferred from a plain model's errors: found where promised, refused where not."""

import numpy as np
import pytest

from equipoise.balance.infer import infer_environments


def draw(n=4_000, seed=0, agreement=0.85, noise=0.25):
    """A shape that predicts the label for 75 %, and a colour that agrees with it for 85 %."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(0, 2, n)
    labels = np.where(rng.random(n) < noise, 1 - shape, shape)
    colour = np.where(rng.random(n) < agreement, labels, 1 - labels)
    x = np.column_stack([3.0 * (colour - 0.5), 1.0 * (shape - 0.5)])
    return x + 0.2 * rng.normal(size=(n, 2)), labels, colour


def test_the_shortcut_differs_between_the_inferred_environments():
    x, labels, colour = draw()
    made = infer_environments(x, labels, seed=0)
    agrees = [(colour == labels)[made.codes == e].mean() for e in (0, 1)]
    assert agrees[0] > 0.9
    assert agrees[1] < 0.75
    assert made.accuracies[0] > made.accuracy > made.accuracies[1]


def test_both_environments_keep_every_kind_of_example():
    """Balancing needs overlap: each colour with each label, in each environment."""
    x, labels, colour = draw()
    made = infer_environments(x, labels, seed=0)
    for e in (0, 1):
        cells = np.zeros((2, 2))
        np.add.at(cells, (colour[made.codes == e], labels[made.codes == e]), 1)
        assert cells.min() >= 20


def test_a_contrast_of_one_half_is_a_random_split():
    x, labels, _ = draw()
    made = infer_environments(x, labels, seed=0, contrast=0.5)
    assert abs(made.accuracies[0] - made.accuracies[1]) < 0.04


def test_the_same_seed_gives_the_same_environments():
    x, labels, _ = draw(n=500)
    first, second = (infer_environments(x, labels, seed=5).codes for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_without_a_shortcut_the_split_follows_label_noise():
    """The documented failure: errors of a model that uses the cause are the mislabelled."""
    x, labels, _ = draw(agreement=0.5)
    made = infer_environments(x[:, 1:], labels, seed=0, contrast=1.0)
    assert made.accuracies[0] > 0.95
    assert made.accuracies[1] < 0.05


def test_pixels_and_several_labels_are_taken():
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 600)
    images = rng.normal(size=(600, 2, 8, 8))
    images[np.arange(600), 0, labels] += np.where(rng.random(600) < 0.8, 2.0, -2.0)[:, None]
    assert len(infer_environments(images, labels, seed=0)) == 600


@pytest.mark.parametrize(
    ("x", "labels", "settings", "message"),
    [
        (np.zeros((4, 1)), [0, 1, 0, 1], {}, "same values in every row"),
        (np.zeros((3, 1)), [0, 1, 0, 1], {}, "X has 3 rows, labels 4"),
        (np.full((4, 1), np.nan), [0, 1, 0, 1], {}, "not finite"),
        (np.zeros((4, 1)), [0, 1, 0, 1], {"contrast": 0.2}, "contrast must be at least 0.5"),
    ],
)
def test_what_cannot_be_split_is_refused(x, labels, settings, message):
    with pytest.raises(ValueError, match=message):
        infer_environments(x, np.array(labels), **settings)


def test_a_plain_model_that_predicts_nothing_is_refused():
    rng = np.random.default_rng(2)
    with pytest.raises(ValueError, match="its errors do not tell environments apart"):
        infer_environments(rng.normal(size=(2_000, 3)), rng.integers(0, 2, 2_000))
