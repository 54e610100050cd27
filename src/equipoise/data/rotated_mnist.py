"""RotatedMNIST: an environment per angle, the label not noisy and not spurious."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.digits import deal_digits
from equipoise.data.environments import EnvironmentDataset
from equipoise.data.registry import register_dataset


@register_dataset
class RotatedMNIST(EnvironmentDataset):
    """Which digit, when turned by 0, 15, … 75 degrees? Ten labels, six environments."""

    def __init__(
        self,
        *,
        environments: Sequence[float] = (0, 15, 30, 45, 60, 75),
        data_dir: str | Path | None = None,
        data_seed: int = 0,
    ) -> None:
        deal = deal_digits(len(environments), data_dir=data_dir, data_seed=data_seed)
        self.labels, self.environments = deal.digits, deal.environments
        self._pixels = deal.pixels
        for position, angle in enumerate(environments):
            members = np.flatnonzero(deal.environments == position)
            self._pixels[members] = rotate_images(self._pixels[members], angle)
        self.label_names = tuple(str(digit) for digit in range(10))
        self.environment_names = tuple(f"{angle:g}" for angle in environments)
        self.input_shape = (1, 28, 28)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self._pixels[indices]).float().div_(255.0)[:, None]


def rotate_images(
    images: NDArray[np.uint8], degrees: float, block: int = 4096
) -> NDArray[np.uint8]:
    """Turn images [N, h, w] counter-clockwise about their centre, bilinear, black outside."""
    if degrees % 360 == 0:
        return images
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    theta = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]], dtype=torch.float32)
    turned = np.empty_like(images)
    for start in range(0, len(images), block):
        part = torch.from_numpy(images[start : start + block])[:, None].float()
        grid = F.affine_grid(theta.expand(len(part), -1, -1), list(part.shape), align_corners=False)
        part = F.grid_sample(part, grid, mode="bilinear", align_corners=False)
        turned[start : start + block] = part[:, 0].round().clamp(0, 255).to(torch.uint8).numpy()
    return turned
