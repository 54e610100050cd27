"""Rotation turns images by the angle it says, counter-clockwise."""

import numpy as np
import pytest

from equipoise.data import RotatedMNIST
from equipoise.data.rotated_mnist import rotate_images


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
