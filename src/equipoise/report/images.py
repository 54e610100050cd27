"""Examples as pictures: any number of channels becomes red, green and blue."""

from __future__ import annotations

import numpy as np
from matplotlib import colormaps
from numpy.typing import NDArray
from torch import Tensor

RGB = NDArray[np.float64]


def channel_colors(n_channels: int) -> RGB:
    """A clearly different colour for each channel [C, 3]."""
    if n_channels == 1:
        return np.ones((1, 3))
    if n_channels == 2:
        return np.array([[0.95, 0.25, 0.2], [0.2, 0.8, 0.35]])
    if n_channels == 3:
        return np.eye(3)
    map_name = "tab10" if n_channels <= 10 else "hsv"
    positions = np.arange(n_channels) if n_channels <= 10 else np.linspace(0, 1, n_channels)
    return np.asarray(colormaps[map_name](positions))[:, :3]


def to_rgb(images: Tensor) -> RGB:
    """Images [B, C, h, w] on a dark ground, as [B, h, w, 3] between 0 and 1."""
    pixels = images.detach().cpu().double().clamp(0, 1).numpy()
    colors = channel_colors(pixels.shape[1])
    return np.asarray(np.einsum("bchw,cr->bhwr", pixels, colors).clip(0, 1))


def tile(pictures: RGB, n_columns: int, gap: int = 2) -> RGB:
    """Pictures [B, h, w, 3] as one, row by row, with light gaps between."""
    n, height, width, _ = pictures.shape
    n_rows = -(-n // n_columns)
    canvas = np.ones(
        (n_rows * (height + gap) - gap, n_columns * (width + gap) - gap, 3), dtype=np.float64
    )
    for position, picture in enumerate(pictures):
        row, column = divmod(position, n_columns)
        top, left = row * (height + gap), column * (width + gap)
        canvas[top : top + height, left : left + width] = picture
    return canvas
