"""Examples as images."""

import base64
import io

import numpy as np
import torch
from PIL import Image

from equipoise.report.images import (
    Brightness,
    channel_colors,
    encode_image,
    is_image,
    tile,
    to_rgb,
)


def decode(address):
    kind, content = address.removeprefix("data:image/").split(";base64,")
    return kind, np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


def test_a_small_picture_keeps_every_pixel():
    picture = np.random.default_rng(0).random((28, 28, 3))
    kind, pixels = decode(encode_image(picture))
    assert kind == "png"
    np.testing.assert_array_equal(pixels, np.round(255 * picture).astype(np.uint8))


def test_a_large_picture_is_reduced_and_stays_small():
    ramp = np.linspace(0, 1, 224)[None, :, None] * np.ones((168, 1, 3))
    address = encode_image(ramp)
    kind, pixels = decode(address)
    assert kind == "jpeg"
    assert pixels.shape == (72, 96, 3)
    assert len(address) < 8_000
    assert pixels[:, 0].mean() < 20
    assert pixels[:, -1].mean() > 235


def test_values_beyond_0_and_1_are_stretched_to_fit():
    normalised = torch.linspace(-2.0, 2.0, 400).reshape(4, 1, 10, 10)
    brightness = Brightness.of(normalised)
    pictures = to_rgb(normalised, brightness)
    assert pictures.min() == 0.0
    assert pictures.max() == 1.0
    assert 0.4 < pictures.mean() < 0.6
    assert Brightness.of(torch.full((2, 3), 5.0)).white > 5.0


def test_pictures_may_come_without_channels():
    assert is_image((28, 28))
    assert not is_image((784,))
    assert to_rgb(torch.rand(2, 5, 4), Brightness()).shape == (2, 5, 4, 3)


def test_every_channel_has_a_colour_of_its_own():
    for n_channels in (1, 2, 3, 10, 17):
        assert len(np.unique(channel_colors(n_channels).round(6), axis=0)) == n_channels


def test_a_lit_channel_is_shown_in_its_colour():
    lit = torch.zeros(2, 2, 6, 6)
    lit[[0, 1], [0, 1]] = 1.0
    shown = to_rgb(lit)
    np.testing.assert_allclose(shown[0, 0, 0], channel_colors(2)[0])
    np.testing.assert_allclose(shown[1, 0, 0], channel_colors(2)[1])


def test_tiles_stand_row_by_row():
    pictures = np.stack([np.full((2, 2, 3), value) for value in (0.1, 0.2, 0.3)])
    canvas = tile(pictures, n_columns=2, gap=1)
    assert canvas.shape == (5, 5, 3)
    assert canvas[0, 0, 0] == 0.1
    assert canvas[0, 3, 0] == 0.2
    assert canvas[3, 0, 0] == 0.3
    assert canvas[4, 4, 0] == 1.0
