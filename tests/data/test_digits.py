"""Digits coloured and turned: the correlations are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.data.digits import ColoredMNIST, ColoredMNIST10, RotatedMNIST, rotate_images

pytestmark = pytest.mark.usefixtures("fake_mnist")


@pytest.mark.parametrize("kind", [ColoredMNIST, ColoredMNIST10])
def test_environment_e_gives_the_labels_colour_with_probability_one_minus_e(kind):
    data = kind(environments=(0.1, 0.9))
    for position, e in enumerate((0.1, 0.9)):
        here = data.environments == position
        share = (data.covariate == data.labels)[here].mean()
        assert abs(share - (1 - e)) < 4 * np.sqrt(e * (1 - e) / here.sum())


def test_other_colours_are_equally_likely_so_e_09_makes_colour_independent_of_ten_labels():
    data = ColoredMNIST10(environments=(0.9, 0.9))
    counts = np.bincount((data.covariate - data.labels) % 10, minlength=10)
    assert np.abs(counts - 70).max() < 5 * np.sqrt(70)


def test_a_quarter_of_the_labels_is_wrong_and_never_by_chance_right():
    noisy, clean = ColoredMNIST10(), ColoredMNIST10(label_noise=0.0)
    wrong = (noisy.labels != clean.labels).mean()
    assert abs(wrong - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 700)
    assert (ColoredMNIST10(label_noise=1.0).labels != clean.labels).all()


def test_label_of_colored_mnist_says_whether_the_digit_is_below_five():
    two = ColoredMNIST(label_noise=0.0)
    ten = ColoredMNIST10(label_noise=0.0)
    assert (two.labels == (ten.labels < 5)).all()


def test_only_the_colours_channel_is_lit():
    data = ColoredMNIST10()
    images, _ = data[np.arange(50)]
    lit = images.flatten(2).sum(-1) > 0
    assert (lit.sum(1) == 1).all()
    assert (lit.float().argmax(1).numpy() == data.covariate[:50]).all()
    assert images.max() <= 1.0


def test_a_batch_is_the_stack_of_its_items():
    data = ColoredMNIST()
    images, labels = data[[3, 1, 4]]
    one_by_one = [data[i] for i in (3, 1, 4)]
    assert torch.equal(images, torch.stack([x for x, _ in one_by_one]))
    assert labels.tolist() == [y for _, y in one_by_one]


def test_the_deal_depends_on_the_data_seed_alone():
    first, again, other = ColoredMNIST(), ColoredMNIST(), ColoredMNIST(data_seed=1)
    assert (first.labels == again.labels).all()
    assert torch.equal(first[[0]][0], again[[0]][0])
    assert (first.labels != other.labels).any()


def test_an_impossible_environment_is_refused():
    with pytest.raises(ValueError, match=r"1\.5"):
        ColoredMNIST(environments=(0.1, 1.5))


def test_a_quarter_turn_is_the_exact_quarter_turn():
    images = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)
    assert np.array_equal(rotate_images(images, 90), np.rot90(images, axes=(1, 2)))


def test_rotation_agrees_with_an_independent_bilinear_rotation():
    from scipy.ndimage import rotate

    yy, xx = np.mgrid[:28, :28]
    blob = (255 * np.exp(-((xx - 17) ** 2 + (yy - 11) ** 2) / 8)).astype(np.uint8)
    ours = rotate_images(blob[None], 30)[0].astype(float)
    theirs = rotate(blob.astype(float), 30, reshape=False, order=1)
    assert np.abs(ours - theirs).max() <= 1.0
    assert ours.sum() > 0.95 * blob.sum()


@pytest.mark.usefixtures("fake_mnist")
def test_every_environment_has_its_angle_and_the_first_is_upright():
    data = RotatedMNIST()
    assert data.environment_names == ("0", "15", "30", "45", "60", "75")
    plain = RotatedMNIST(environments=(0,) * 6)
    upright = np.flatnonzero(data.environments == 0)
    assert (data.fetch(upright) == plain.fetch(upright)).all()
    turned = np.flatnonzero(data.environments == 3)
    assert (data.fetch(turned) != plain.fetch(turned)).any()
