"""PACS, VLCS, OfficeHome, TerraIncognita and DomainNet, from folders a user has put in place."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from equipoise.checks import check_choice
from equipoise.data.folders import ImageFolderEnvironments, spell
from equipoise.data.opening import register_dataset


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
    """The published sets by name, as `published.json` describes them.

    >>> sum(list_image_benchmarks()["PACS"].counts[0].values())
    9991
    """
    text = files("equipoise.data").joinpath("published.json").read_text()
    return {
        name: ImageBenchmark(
            name, tuple(facts["folders"]), tuple(facts["counts"]), tuple(facts["classes"])
        )
        for name, facts in json.loads(text).items()
    }


def get_image_benchmark(name: str) -> ImageBenchmark:
    """One of the published sets; the error for an unknown name suggests the nearest."""
    known = list_image_benchmarks()
    return known[check_choice("image benchmark", name, known)]


def find_benchmark(benchmark: ImageBenchmark, data_dir: str | Path | None) -> Path:
    """The directory with the environments: `data_dir`, or a folder of the set's name in it.

    Without `data_dir` the variable EQUIPOISE_DATA is looked at.
    """
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
    """A published set of images under its own name; see `ImageFolderEnvironments`.

    Environments and labels have the published names and order, whatever else lies there.
    """

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
