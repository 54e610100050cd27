"""Random changes of a batch of images that keep their labels, one call for the whole batch."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from equipoise.checks import check_choice

Augmentation = Callable[[Tensor, torch.Generator], Tensor]

GRAY = (0.299, 0.587, 0.114)  # luma of red, green and blue (ITU-R BT.601)


def shift_images(x: Tensor, generator: torch.Generator, *, pixels: int = 2) -> Tensor:
    """Move each image by −pixels…pixels in both directions, zeros moving in."""
    _check_images(x)
    height, width = x.shape[2:]
    down, right = torch.randint(2 * pixels + 1, (2, len(x)), generator=generator).to(x.device)
    windows = pad(x, [pixels] * 4).unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(len(x), device=x.device), :, down, right]


def transform_affine(
    x: Tensor,
    generator: torch.Generator,
    *,
    rotation: float = 15.0,
    scale: float = 0.12,
    shear: float = 0.1,
    shift: float = 2.0,
) -> Tensor:
    """Rotate (degrees), scale, shear and shift (pixels) each image by its own random amounts.

    Each amount is uniform within ± its bound. The pixel at p is taken from
    R(angle)·[[1, shear], [0, 1]]·p / scale + shift, interpolated linearly, zeros outside.
    """
    _check_images(x)
    angle = _uniform(x, generator, rotation * math.pi / 180)
    slant = _uniform(x, generator, shear)
    zoom = 1 / (1 + _uniform(x, generator, scale))
    right = _uniform(x, generator, 2 * shift / x.shape[3])
    down = _uniform(x, generator, 2 * shift / x.shape[2])
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    return _resample(x, (cos, cos * slant - sin, right), (sin, sin * slant + cos, down))


def crop_and_flip(x: Tensor, generator: torch.Generator, *, smallest: float = 0.7) -> Tensor:
    """Cut out 70–100 % of each image's area (aspect 3:4 to 4:3), resize, mirror every second."""
    _check_images(x)
    area = 1 - (1 - smallest) * torch.rand(len(x), generator=generator).to(x.device)
    aspect = _uniform(x, generator, math.log(4 / 3)).exp()
    width = (area * aspect).sqrt().clamp(max=1)
    height = (area / aspect).sqrt().clamp(max=1)
    right = _uniform(x, generator, 1.0) * (1 - width)
    down = _uniform(x, generator, 1.0) * (1 - height)
    mirror = 1 - 2 * torch.randint(2, (len(x),), generator=generator).to(x.device)
    zero = torch.zeros_like(width)
    return _resample(x, (width * mirror, zero, right), (zero, height, down))


def jitter_colours(x: Tensor, generator: torch.Generator, *, strength: float = 0.3) -> Tensor:
    """Change brightness, contrast, saturation (1 ± strength) and hue (a turn of ± strength).

    All four are linear in the pixel, so each image gets one 3×3 matrix and one offset. Expects
    values in [0, 1], that is before any normalisation, and keeps them there.
    """
    _check_images(x, channels=3)
    gray = torch.tensor(GRAY, dtype=x.dtype, device=x.device)
    brightness, contrast, saturation = (1 + _uniform(x, generator, strength) for _ in range(3))
    turn = _uniform(x, generator, 2 * math.pi * strength)
    eye = torch.eye(3, dtype=x.dtype, device=x.device)
    to_gray = gray.expand(3, 3)  # every channel becomes the luma
    saturate = to_gray + saturation.view(-1, 1, 1) * (eye - to_gray)
    matrix = saturate @ _rotate_about_gray(turn) * (brightness * contrast).view(-1, 1, 1)
    level = torch.einsum("c,nc->n", gray, x.mean(dim=(2, 3))) * brightness * (1 - contrast)
    changed = torch.einsum("nij,njhw->nihw", matrix, x) + level.view(-1, 1, 1, 1)
    return changed.clamp(0, 1)


def gray_out(x: Tensor, generator: torch.Generator, *, probability: float = 0.1) -> Tensor:
    """Take the colour from some images."""
    _check_images(x, channels=3)
    chosen = (torch.rand(len(x), generator=generator) < probability).to(x.device)
    luma = torch.einsum("c,nchw->nhw", torch.tensor(GRAY, dtype=x.dtype, device=x.device), x)
    return torch.where(chosen.view(-1, 1, 1, 1), luma.unsqueeze(1), x)


def augment_photos(x: Tensor, generator: torch.Generator) -> Tensor:
    """DomainBed's augmentation for photos: crop, flip, colour jitter 0.3, 10 % gray."""
    x = crop_and_flip(x, generator)
    return gray_out(jitter_colours(x, generator), generator)


def keep_images(x: Tensor, generator: torch.Generator) -> Tensor:
    """No augmentation."""
    return x


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": keep_images,
    "shift": shift_images,
    "affine": transform_affine,
    "photo": augment_photos,
}


def get_augmentation(name: str) -> Augmentation:
    """The augmentation of that name, called as ``augment(x, generator)``.

    >>> x = torch.rand(4, 2, 28, 28)
    >>> get_augmentation("affine")(x, torch.Generator().manual_seed(0)).shape
    torch.Size([4, 2, 28, 28])
    """
    return AUGMENTATIONS[check_choice("augmentation", name, AUGMENTATIONS)]


def _uniform(x: Tensor, generator: torch.Generator, bound: float) -> Tensor:
    draws = torch.rand(len(x), generator=generator, dtype=x.dtype)
    return ((2 * draws - 1) * bound).to(x.device)


def _resample(x: Tensor, *rows: tuple[Tensor, ...]) -> Tensor:
    """Each image by its own 2×3 map, given as two rows of three tensors [N]."""
    maps = torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)
    grid = affine_grid(maps.to(x.dtype), list(x.shape), align_corners=False)
    return grid_sample(x, grid, align_corners=False)


def _rotate_about_gray(turn: Tensor) -> Tensor:
    """Rotations [N, 3, 3] of RGB about (1, 1, 1), by Rodrigues' formula."""
    cos, sin = turn.cos().view(-1, 1, 1), turn.sin().view(-1, 1, 1) / math.sqrt(3)
    cross = turn.new_tensor([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    return cos * torch.eye(3).to(turn) + sin * cross + (1 - cos) / 3


def _check_images(x: Tensor, channels: int | None = None) -> None:
    if x.ndim != 4 or not x.is_floating_point():
        raise ValueError(
            "augmentation needs a float tensor [N, channels, height, width], got "
            f"{x.dtype} of the shape {tuple(x.shape)}"
        )
    if channels is not None and x.shape[1] != channels:
        raise ValueError(f"colours can be changed in RGB images only, got {x.shape[1]} channels")
