"""Examples as small pictures inside a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from equipoise.report.images import RGB, to_rgb

LARGEST_SIDE = 96  # larger pictures are reduced to it
LARGEST_LOSSLESS = 48  # up to this side every pixel is kept


@dataclass(frozen=True)
class Brightness:
    """Which values are shown as black and white; the same for all pictures of a report."""

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


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether examples of this shape can be looked at: [h, w] or [channels, h, w]."""
    return len(shape) in (2, 3)


def is_small_picture(shape: Sequence[int]) -> bool:
    """Whether every pixel is kept, and shown as a square."""
    return len(shape) > 1 and max(shape[-2:]) <= LARGEST_LOSSLESS


def make_pictures(images: Tensor, brightness: Brightness) -> RGB:
    """Examples [B, h, w] or [B, C, h, w] as red, green and blue [B, h, w, 3]."""
    if images.ndim == 3:
        images = images[:, None]
    return to_rgb((images.double() - brightness.black) / (brightness.white - brightness.black))


def encode_picture(picture: NDArray[np.float64]) -> str:
    """A picture [h, w, 3] as a data address: PNG if it is small, else a reduced JPEG."""
    image = Image.fromarray((255 * picture.clip(0, 1)).round().astype(np.uint8))
    image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
    lossless = is_small_picture(image.size)
    content = io.BytesIO()
    if lossless:
        image.save(content, "PNG", optimize=True)
    else:
        image.save(content, "JPEG", quality=82)
    kind = "png" if lossless else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
