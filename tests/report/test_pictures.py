"""Examples as pictures inside a page."""

import base64
import io

import numpy as np
import torch
from PIL import Image

from equipoise.report.pictures import Brightness, encode_picture, is_picture, make_pictures


def decode(address):
    kind, content = address.removeprefix("data:image/").split(";base64,")
    return kind, np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


def test_a_small_picture_keeps_every_pixel():
    picture = np.random.default_rng(0).random((28, 28, 3))
    kind, pixels = decode(encode_picture(picture))
    assert kind == "png"
    np.testing.assert_array_equal(pixels, np.round(255 * picture).astype(np.uint8))


def test_a_large_picture_is_reduced_and_stays_small():
    ramp = np.linspace(0, 1, 224)[None, :, None] * np.ones((168, 1, 3))
    address = encode_picture(ramp)
    kind, pixels = decode(address)
    assert kind == "jpeg"
    assert pixels.shape == (72, 96, 3)
    assert len(address) < 8_000
    assert pixels[:, 0].mean() < 20
    assert pixels[:, -1].mean() > 235


def test_values_beyond_0_and_1_are_stretched_to_fit():
    normalised = torch.linspace(-2.0, 2.0, 400).reshape(4, 1, 10, 10)
    brightness = Brightness.of(normalised)
    pictures = make_pictures(normalised, brightness)
    assert pictures.min() == 0.0
    assert pictures.max() == 1.0
    assert 0.4 < pictures.mean() < 0.6
    assert Brightness.of(torch.full((2, 3), 5.0)).white > 5.0


def test_pictures_may_come_without_channels():
    assert is_picture((28, 28))
    assert not is_picture((784,))
    assert make_pictures(torch.rand(2, 5, 4), Brightness()).shape == (2, 5, 4, 3)
