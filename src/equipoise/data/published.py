"""The paper's datasets: digits dealt into environments, and PACS and its peers from folders."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from equipoise.checks import check_choice
from equipoise.data.dataset import EnvironmentDataset
from equipoise.data.fetch import fetch_mnist
from equipoise.data.folders import ImageFolderEnvironments, spell
from equipoise.data.opening import register_dataset

Ints = NDArray[np.int64]

BLOCK = 4096  # images that are turned at a time


def deal_digits(
    n_environments: int, data_dir: str | Path | None, data_seed: int
) -> tuple[NDArray[np.uint8], Ints, Ints, np.random.Generator]:
    """Pixels, digits and environments, shuffled and dealt in turn, and the generator of it."""
    if n_environments < 2:
        raise ValueError(f"digits need at least two environments, got {n_environments}")
    pixels, digits = fetch_mnist(data_dir)
    generator = np.random.default_rng([data_seed, 0xDEA1])
    order = generator.permutation(len(digits))
    environments = np.arange(len(digits), dtype=np.int64) % n_environments
    return pixels[order], digits[order].astype(np.int64), environments, generator


class PaintedDigits(EnvironmentDataset):
    """MNIST digits with a noisy label, each lit in one colour channel.

    An environment `e` gives an example the colour of its label with probability `1 − e`, else
    one of the other colours. The label differs from the digit's own with `label_noise`.
    Digits stay uint8 in memory and are painted when fetched.
    """

    label_of_digit: Ints
    covariate_name = "colour"

    def __init__(
        self,
        *,
        environments: Sequence[float] = (0.1, 0.2, 0.9),
        label_noise: float = 0.25,
        data_dir: str | Path | None = None,
        data_seed: int = 0,
    ) -> None:
        for e in environments:
            if not 0.0 <= e <= 1.0:
                raise ValueError(f"an environment e is a probability, got {e}")
        self._pixels, digits, self.environments, generator = deal_digits(
            len(environments), data_dir, data_seed
        )
        self.labels = self._change(self.label_of_digit[digits], label_noise, generator)
        probability = np.asarray(environments, dtype=np.float64)[self.environments]
        self.covariate = self._change(self.labels, probability, generator)
        self.environment_names = tuple(f"{e:g}" for e in environments)
        self.input_shape = (self.n_labels, 28, 28)

    def _change(
        self, values: Ints, probability: float | NDArray[np.float64], generator: np.random.Generator
    ) -> Ints:
        """Replace values, with the given probability, by one of the others, uniformly."""
        changed = generator.random(len(values)) < probability
        step = generator.integers(1, self.n_labels, size=len(values))
        return np.where(changed, (values + step) % self.n_labels, values)

    def fetch(self, indices: Ints) -> Tensor:
        assert self.covariate is not None
        # Rows of one flat array: twice as fast as painting [N, colours, 28, 28].
        images = np.zeros((len(indices) * self.n_labels, 28 * 28), dtype=np.float32)
        lit = np.arange(len(indices)) * self.n_labels + self.covariate[indices]
        digits = self._pixels[indices].reshape(len(indices), 28 * 28)
        images[lit] = digits.astype(np.float32) / np.float32(255)
        return torch.from_numpy(images).view(-1, *self.input_shape)


@register_dataset
class ColoredMNIST(PaintedDigits):
    """Is the digit below 5? Two labels, two colours, environments e = 0.1, 0.2, 0.9."""

    label_names = ("5-9", "0-4")
    label_of_digit = (np.arange(10) < 5).astype(np.int64)


@register_dataset
class ColoredMNIST10(PaintedDigits):
    """Which digit? Ten labels, ten colours (a channel each), environments e = 0.1, 0.2, 0.9."""

    label_names = tuple("0123456789")
    label_of_digit = np.arange(10)


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
        self._pixels, self.labels, self.environments, _ = deal_digits(
            len(environments), data_dir, data_seed
        )
        for position, angle in enumerate(environments):
            members = np.flatnonzero(self.environments == position)
            self._pixels[members] = rotate_images(self._pixels[members], angle)
        self.label_names = tuple("0123456789")
        self.environment_names = tuple(f"{angle:g}" for angle in environments)
        self.input_shape = (1, 28, 28)

    def fetch(self, indices: Ints) -> Tensor:
        return torch.from_numpy(self._pixels[indices]).float().div_(255.0)[:, None]


def rotate_images(images: NDArray[np.uint8], degrees: float) -> NDArray[np.uint8]:
    """Turn images [N, h, w] counter-clockwise about their centre, bilinear, black outside."""
    if degrees % 360 == 0:
        return images
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    theta = torch.tensor([[[cos, -sin, 0.0], [sin, cos, 0.0]]], dtype=torch.float32)
    turned = np.empty_like(images)
    for start in range(0, len(images), BLOCK):
        part = torch.from_numpy(images[start : start + BLOCK])[:, None].float()
        grid = F.affine_grid(theta.expand(len(part), -1, -1), list(part.shape), align_corners=False)
        part = F.grid_sample(part, grid, mode="bilinear", align_corners=False)
        turned[start : start + BLOCK] = part[:, 0].round().clamp(0, 255).to(torch.uint8).numpy()
    return turned


@dataclass(frozen=True)
class ImageBenchmark:
    """What a published set of images consists of.

    `folders` are the names its directory goes by; `counts` the images of every environment, in
    each edition that is about; `classes` the names of the class folders.
    """

    name: str
    folders: tuple[str, ...]
    counts: tuple[Mapping[str, int], ...]
    classes: tuple[str, ...]

    @property
    def environment_names(self) -> tuple[str, ...]:
        return tuple(self.counts[0])


def list_image_benchmarks() -> dict[str, ImageBenchmark]:
    """The published sets by name, as `published.json` describes them."""
    text = files("equipoise.data").joinpath("published.json").read_text()
    parts = ("folders", "counts", "classes")
    return {
        name: ImageBenchmark(name, *(tuple(facts[part]) for part in parts))
        for name, facts in json.loads(text).items()
    }


def get_image_benchmark(name: str) -> ImageBenchmark:
    """One of the published sets; the error for an unknown name suggests the nearest."""
    known = list_image_benchmarks()
    return known[check_choice("image benchmark", name, known)]


def find_benchmark(benchmark: ImageBenchmark, data_dir: str | Path | None) -> Path:
    """The directory with the environments: `data_dir`, or a folder of the set's name in it."""
    given = data_dir or os.environ.get("EQUIPOISE_DATA")
    names = benchmark.environment_names
    how = (
        f"Put it in place as DIR/{benchmark.folders[0]}/<environment>/<class>/*.jpg, with the "
        f"environments {', '.join(names)}, and name DIR by --data-dir, data_dir=… or the variable "
        "EQUIPOISE_DATA"
    )
    if not given:
        raise ValueError(f"{benchmark.name} is not on this machine as far as known. {how}")
    root = Path(given).expanduser()
    if not root.is_dir():
        raise ValueError(f"the data directory {root} does not exist. {how}")
    wanted = {spell(name) for name in names}
    for folder in (*(root / name for name in benchmark.folders), root):
        if folder.is_dir() and wanted & {spell(path.name) for path in folder.iterdir()}:
            return folder
    raise ValueError(f"{benchmark.name} is not in {root}. {how}")


class BenchmarkImages(ImageFolderEnvironments):
    """A published set of images under its own name; see `ImageFolderEnvironments`."""

    def __init__(
        self, *, data_dir: str | Path | None = None, data_seed: int = 0, **settings: Any
    ) -> None:
        benchmark = get_image_benchmark(type(self).__name__)
        root = find_benchmark(benchmark, data_dir)
        super().__init__(
            root,
            environment_names=benchmark.environment_names,
            label_names=benchmark.classes,
            **settings,
        )
        there = {self.environment_names[code] for code in self.environments}
        missing = [name for name in self.environment_names if name not in there]
        if missing:
            raise ValueError(
                f"{benchmark.name} in {root} has no images of {', '.join(missing)}; "
                f"`equipoise data check {root} --dataset {benchmark.name}` says what is missing"
            )


@register_dataset
class PACS(BenchmarkImages):
    """Seven objects in art, cartoons, photos and sketches; images from --data-dir."""


@register_dataset
class VLCS(BenchmarkImages):
    """Five objects in photos of four collections; images from --data-dir."""


@register_dataset
class OfficeHome(BenchmarkImages):
    """65 things of home and office, drawn, on sale and real; images from --data-dir."""


@register_dataset
class TerraIncognita(BenchmarkImages):
    """Ten animals before camera traps at four places; images from --data-dir."""


@register_dataset
class DomainNet(BenchmarkImages):
    """345 objects in six styles; images from --data-dir."""
