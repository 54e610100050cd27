import colorsys
import math

import numpy as np
import pytest
import torch
from torch.nn.functional import affine_grid, grid_sample

from equipoise.algorithms import get_augmentation
from equipoise.algorithms.augmentation import (
    AUGMENTATIONS,
    crop_and_flip,
    gray_out,
    jitter_colours,
    shift_images,
    transform_affine,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def images(n=6, channels=3, side=10, seed=0):
    return torch.rand(n, channels, side, side, generator=generator(seed))


def shifted_by_loops(image, down, right):
    moved = np.zeros_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            if 0 <= row + down < height and 0 <= column + right < width:
                moved[:, row, column] = image[:, row + down, column + right]
    return moved


def test_each_image_is_shifted_by_whole_pixels_and_all_shifts_occur():
    x = images(n=400, channels=2, side=6)
    found = set()
    for image, moved in zip(x.numpy(), shift_images(x, generator(), pixels=1).numpy(), strict=True):
        matches = [
            (down, right)
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if np.array_equal(moved, shifted_by_loops(image, down, right))
        ]
        assert len(matches) == 1
        found.add(matches[0])
    assert len(found) == 9


def test_the_affine_map_of_each_image_is_the_stated_product():
    x = images(n=3, side=9)
    draws = generator()
    unit = [2 * torch.rand(3, generator=draws) - 1 for _ in range(5)]
    angle, slant, zoom = unit[0] * math.radians(20), unit[1] * 0.3, 1 / (1 + unit[2] * 0.2)
    right, down = unit[3] * 2 * 1.5 / 9, unit[4] * 2 * 1.5 / 9
    ours = transform_affine(x, generator(), rotation=20, scale=0.2, shear=0.3, shift=1.5)
    for n in range(3):
        cos, sin = math.cos(angle[n]), math.sin(angle[n])
        turn = (
            np.array([[cos, -sin], [sin, cos]]) @ np.array([[1, slant[n]], [0, 1]]) * zoom[n].item()
        )
        matrix = np.column_stack([turn, [right[n], down[n]]])
        grid = affine_grid(torch.tensor(matrix[None]).float(), [1, 3, 9, 9], align_corners=False)
        torch.testing.assert_close(ours[n], grid_sample(x[n : n + 1], grid, align_corners=False)[0])


def test_affine_maps_of_size_zero_change_nothing():
    x = images()
    still = transform_affine(x, generator(), rotation=0, scale=0, shear=0, shift=0)
    torch.testing.assert_close(still, x, atol=1e-5, rtol=1e-5)


def test_every_second_crop_is_mirrored_and_none_leaves_the_image():
    ramp = torch.linspace(0, 1, 32).expand(200, 1, 32, 32)
    rise = crop_and_flip(ramp, generator()).diff(dim=3).mean(dim=(1, 2, 3))
    assert 60 < int((rise < 0).sum()) < 140
    inside = crop_and_flip(torch.ones(50, 1, 16, 16), generator())
    assert inside[:, :, 1:-1, 1:-1].min() > 0.99


def test_a_crop_covers_at_least_the_stated_area():
    ramps = torch.stack(torch.meshgrid(*[torch.arange(64.0)] * 2, indexing="ij")).expand(
        300, 2, 64, 64
    )
    cut = crop_and_flip(ramps, generator(), smallest=0.7)[:, :, 1:-1, 1:-1]
    spans = cut.amax(dim=(2, 3)) - cut.amin(dim=(2, 3))
    areas = spans.prod(dim=1) / 61**2
    assert areas.min() > 0.6
    assert areas.max() < 1.04


def test_colour_jitter_of_strength_zero_changes_nothing_and_stays_in_range():
    x = images()
    torch.testing.assert_close(
        jitter_colours(x, generator(), strength=0.0), x, atol=1e-5, rtol=1e-5
    )
    changed = jitter_colours(x, generator())
    assert changed.min() >= 0
    assert changed.max() <= 1
    assert not torch.allclose(changed, x, atol=0.05)


def test_colour_jitter_keeps_gray_gray_and_turns_hues():
    gray = torch.rand(20, 1, 4, 4, generator=generator()).expand(-1, 3, -1, -1) * 0.5
    assert jitter_colours(gray, generator()).std(dim=1).max() < 1e-5
    red = torch.tensor([0.6, 0.2, 0.2]).view(1, 3, 1, 1).expand(300, 3, 2, 2)
    hues = [
        colorsys.rgb_to_hsv(*pixel)[0]
        for pixel in jitter_colours(red, generator())[:, :, 0, 0].tolist()
    ]
    turns = np.array([min(h, 1 - h) for h in hues])
    assert turns.max() < 0.36
    assert turns.mean() > 0.1


def test_gray_images_have_the_luma_in_every_channel_and_the_others_are_untouched():
    x = images(n=500)
    y = gray_out(x, generator(), probability=0.3)
    luma = (0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2]).unsqueeze(1).expand_as(x)
    is_gray = torch.isclose(y, luma, atol=1e-6).flatten(1).all(dim=1)
    assert torch.equal(y[~is_gray], x[~is_gray])
    assert 110 < int(is_gray.sum()) < 190


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
def test_equal_generators_give_equal_images_and_the_input_is_kept(name):
    x = images()
    copy = x.clone()
    augment = get_augmentation(name)
    assert torch.equal(augment(x, generator(1)), augment(x, generator(1)))
    assert torch.equal(x, copy)
    if name != "none":
        assert not torch.equal(augment(x, generator(1)), augment(x, generator(2)))


def test_what_cannot_be_augmented_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'affine'"):
        get_augmentation("afine")
    with pytest.raises(ValueError, match=r"float tensor.*torch.uint8"):
        shift_images(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), generator())
    with pytest.raises(ValueError, match="RGB images only, got 2 channels"):
        gray_out(images(channels=2), generator())
