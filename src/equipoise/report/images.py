"""Examples as images: any number of channels becomes red, green and blue."""

from __future__ import annotations

import base64
import colorsys
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

RGB = NDArray[np.float64]

LARGEST_SIDE = 96  # larger images are reduced to it
LARGEST_LOSSLESS = 48  # up to this side every pixel is kept
TEN = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f bcbd22 17becf"


def channel_colors(n_channels: int) -> RGB:
    """A clearly different colour for each channel [C, 3]."""
    if n_channels == 1:
        return np.ones((1, 3))
    if n_channels == 2:
        return np.array([[0.95, 0.25, 0.2], [0.2, 0.8, 0.35]])
    if n_channels == 3:
        return np.eye(3)
    if n_channels <= 10:
        return np.array([list(bytes.fromhex(code)) for code in TEN.split()[:n_channels]]) / 255
    hues = np.arange(n_channels) / n_channels
    return np.array([colorsys.hsv_to_rgb(hue, 1.0, 1.0) for hue in hues.tolist()])


@dataclass(frozen=True)
class Brightness:
    """Which values are shown as black and white; the same for all images of a report."""

    black: float = 0.0
    white: float = 1.0

    @classmethod
    def of(cls, images: Tensor) -> Brightness:
        """0 to 1 where the values keep to it, else what 98 % of them span.

        >>> import torch
        >>> Brightness.of(torch.tensor([0.0, 0.5]))
        Brightness(black=0.0, white=1.0)
        """
        values = images.detach().cpu().double().numpy()
        if values.size == 0 or (values.min() >= -0.01 and values.max() <= 1.01):
            return cls()
        black, white = np.quantile(values, [0.01, 0.99])
        return cls(float(black), float(white if white > black else black + 1.0))


def is_image(shape: Sequence[int]) -> bool:
    """Whether examples of this shape can be looked at: [h, w] or [channels, h, w]."""
    return len(shape) in (2, 3)


def is_small(shape: Sequence[int]) -> bool:
    """Whether every pixel is kept, and shown as a square."""
    return len(shape) > 1 and max(shape[-2:]) <= LARGEST_LOSSLESS


def to_rgb(images: Tensor, brightness: Brightness | None = None) -> RGB:
    """Images [B, h, w] or [B, C, h, w] on a dark ground, as [B, h, w, 3] between 0 and 1."""
    shown = brightness or Brightness()
    pixels = images.detach().cpu().double().numpy()
    pixels = pixels[:, None] if pixels.ndim == 3 else pixels
    pixels = ((pixels - shown.black) / (shown.white - shown.black)).clip(0, 1)
    colors = channel_colors(pixels.shape[1])
    return np.asarray(np.einsum("bchw,cr->bhwr", pixels, colors).clip(0, 1))


def tile(images: RGB, n_columns: int, gap: int = 2) -> RGB:
    """Images [B, h, w, 3] as one, row by row, with light gaps between."""
    n, height, width, _ = images.shape
    n_rows = -(-n // n_columns)
    canvas = np.ones((n_rows * (height + gap) - gap, n_columns * (width + gap) - gap, 3))
    for position, image in enumerate(images):
        row, column = divmod(position, n_columns)
        top, left = row * (height + gap), column * (width + gap)
        canvas[top : top + height, left : left + width] = image
    return canvas


def encode_image(pixels: RGB) -> str:
    """An image [h, w, 3] as a data address: PNG if it is small, else a reduced JPEG."""
    image = Image.fromarray((255 * pixels.clip(0, 1)).round().astype(np.uint8))
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    kind, options = ("png", {"optimize": True}) if is_small(image.size) else ("jpeg", {})
    content = io.BytesIO()
    image.save(content, kind, **options, **({} if kind == "png" else {"quality": 82}))
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
