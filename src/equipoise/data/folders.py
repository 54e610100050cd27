"""What lies in a tree `root/<environment>/<class>/*.jpg`, without opening a single image."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LAYOUT = "<environment>/<class>/*.jpg"
# What Pillow can open and people keep pictures in.
SUFFIXES = frozenset(
    [".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"]
)


@dataclass(frozen=True)
class FolderTree:
    """Images by environment and class; paths are relative to `root`, with slashes.

    `folders` has every (environment, class) with a folder, by position, and (environment, −1)
    for the environment's own. `no_images` are files without the name of an image, `misplaced`
    images outside a class folder, `unexpected` folders of none of the names asked for.
    """

    root: Path
    environment_names: tuple[str, ...]
    label_names: tuple[str, ...]
    paths: tuple[str, ...]
    labels: NDArray[np.int64]
    environments: NDArray[np.int64]
    folders: frozenset[tuple[int, int]]
    no_images: tuple[str, ...]
    misplaced: tuple[str, ...]
    unexpected: tuple[str, ...]

    def count(self) -> NDArray[np.int64]:
        """Images of every environment and class [|E|, m]."""
        counts = np.zeros((len(self.environment_names), len(self.label_names)), dtype=np.int64)
        np.add.at(counts, (self.environments, self.labels), 1)
        return counts


def scan_folders(
    root: str | Path,
    *,
    environment_names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
) -> FolderTree:
    """List the images of a tree. Names and order are those given, else all folders, sorted.

    Given names find their folders whatever the case and whether words are parted by a space or
    an underscore; one without a folder has no images. Hidden files and folders do not count.
    """
    root = Path(root)
    if not root.is_dir():
        raise ValueError(f"there is no directory {root}; expected {root}/{LAYOUT}")
    sites, unexpected = _choose(_folders(root), environment_names)
    found = {name: _folders(folder) if folder else [] for name, folder in sites.items()}
    if label_names is None:
        label_names = sorted({folder.name for folders in found.values() for folder in folders})
    paths, labels, environments = list[str](), list[int](), list[int]()
    there = set[tuple[int, int]]()
    no_images, misplaced = _loose_files(root, root)
    for place, (name, site) in enumerate(sites.items()):
        if site is None:
            continue
        there.add((place, -1))
        others, images = _loose_files(root, site)
        no_images, misplaced = no_images + others, misplaced + images
        classes, more = _choose(found[name], label_names)
        unexpected += more
        for label, folder in enumerate(classes.values()):
            if folder is None:
                continue
            there.add((place, label))
            images, others = _split_images(root, _files_below(folder))
            paths += images
            labels += [label] * len(images)
            environments += [place] * len(images)
            no_images += others
    return FolderTree(
        root=root,
        environment_names=tuple(sites),
        label_names=tuple(label_names),
        paths=tuple(paths),
        labels=np.array(labels, dtype=np.int64),
        environments=np.array(environments, dtype=np.int64),
        folders=frozenset(there),
        no_images=tuple(no_images),
        misplaced=tuple(misplaced),
        unexpected=tuple(folder.relative_to(root).as_posix() for folder in unexpected),
    )


def spell(name: str) -> str:
    """A name without the differences that copies of a dataset have.

    >>> spell("Real World") == spell("real_world")
    True
    """
    return name.lower().replace(" ", "_")


def _choose(
    folders: list[Path], names: Sequence[str] | None
) -> tuple[dict[str, Path | None], list[Path]]:
    """The folder of every name, and the folders that have none."""
    if names is None:
        return {folder.name: folder for folder in folders}, []
    by_spelling = {spell(folder.name): folder for folder in folders}
    chosen = {name: by_spelling.get(spell(name)) for name in names}
    taken = {folder for folder in chosen.values() if folder is not None}
    return chosen, [folder for folder in folders if folder not in taken]


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _loose_files(root: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Files directly in a folder that should hold folders: those that are no images, and images."""
    files = [p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")]
    images, others = _split_images(root, files)
    return others, images


def _split_images(root: Path, files: Iterable[Path]) -> tuple[list[str], list[str]]:
    images, others = list[str](), list[str]()
    for file in sorted(files):
        part = images if file.suffix.lower() in SUFFIXES else others
        part.append(file.relative_to(root).as_posix())
    return images, others


def _files_below(folder: Path) -> list[Path]:
    """Every file below a class folder that is not hidden."""
    files = []
    for directory, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        files += [Path(directory) / name for name in names if not name.startswith(".")]
    return files
