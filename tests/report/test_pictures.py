"""Numbers, ticks and axes of every picture, and examples as images."""

import base64
import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise.report.pictures import (
    Axis,
    channel_colors,
    encode_image,
    find_brightness,
    find_ticks,
    is_image,
    make_axis,
    tile,
    to_rgb,
    write_number,
    write_share,
)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_few_evenly_spread_and_inside(low, width, n_at_most):
    ticks = find_ticks(low, low + width, n_at_most)
    assert len(ticks) <= n_at_most + 1
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[:1], rtol=1e-3)


def test_a_value_outside_stands_at_the_border():
    axis = Axis(0.0, 2.0)
    assert [axis.place(x) for x in (-5.0, 0.0, 1.0, 2.0, math.inf)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_an_axis_spans_what_is_known():
    axis = make_axis([3.0, math.nan, 1.0, math.inf], at_values=True)
    assert (axis.low, axis.high) == (1.0, 3.0)
    assert axis.ticks == ((1.0, "1"), (3.0, "3"))
    assert make_axis([]).high > make_axis([]).low


@pytest.mark.parametrize(
    ("value", "written"),
    [(-0.25, "−0.25"), (3.14159, "3.14"), (250.4, "250"), (2e-5, "2e−5"), (math.nan, "–")],
)
def test_numbers_are_short(value, written):
    assert write_number(value) == written


def test_a_share_is_not_rounded_to_a_whole_that_it_is_not():
    assert write_share(1.0) == "100\u202f%"
    assert write_share(0.9999, 1) == "> 99.9\u202f%"
    assert write_share(0.0) == "0\u202f%"


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
    pictures = to_rgb(normalised, find_brightness(normalised))
    assert pictures.min() == 0.0
    assert pictures.max() == 1.0
    assert 0.4 < pictures.mean() < 0.6
    assert find_brightness(torch.full((2, 3), 5.0))[1] > 5.0


def test_pictures_may_come_without_channels():
    assert is_image((28, 28))
    assert not is_image((784,))
    assert to_rgb(torch.rand(2, 5, 4)).shape == (2, 5, 4, 3)


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
