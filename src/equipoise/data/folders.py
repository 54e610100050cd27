"""A folder tree of images, `root/<environment>/<class>/*.jpg`, as environments."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.checks import check_choice, check_path, show
from equipoise.data.cache import choose_data_cache
from equipoise.data.dataset import EnvironmentDataset
from equipoise.data.examples import list_some
from equipoise.data.images import DECODING, Size, cache_images, digest_files

IMAGE_SIZE = 224  # the published benchmarks'
LAYOUT = "<environment>/<class>/*.jpg"
# What Pillow can open and people keep pictures in.
SUFFIXES = (
    ".jpg",
    ".jpeg",
    ".png",
    ".bmp",
    ".gif",
    ".ppm",
    ".pgm",
    ".pbm",
    ".tif",
    ".tiff",
    ".webp",
)


#: What may lie around in a tree: what a report says of one, and a warning of several.
STRAYS = {
    "unexpected": ("not a folder of the published set", "unknown folders"),
    "misplaced": ("an image outside a class folder", "images outside a class folder"),
    "no-image": ("not the name of an image", "files that are no images"),
}


@dataclass(frozen=True)
class FolderTree:
    """Images by environment and class; paths are relative to `root`, with slashes.

    `folders` has every (environment, class) with a folder, by position, and (environment, −1)
    for the environment's own. `strays` are paths by the kinds of `STRAYS`.
    """

    root: Path
    environment_names: tuple[str, ...]
    label_names: tuple[str, ...]
    paths: tuple[str, ...]
    labels: NDArray[np.int64]
    environments: NDArray[np.int64]
    folders: frozenset[tuple[int, int]]
    strays: dict[str, list[str]]

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
    root = check_path("root", root)
    if not root.is_dir():
        raise ValueError(f"there is no directory {root}; expected {root}/{LAYOUT}")
    seen = {_inode(root)}
    sites, unexpected = _choose(_folders(root, seen), environment_names)
    found = {name: _folders(folder, seen) if folder else [] for name, folder in sites.items()}
    if label_names is None:
        label_names = sorted({folder.name for folders in found.values() for folder in folders})
    paths, labels, environments = list[str](), list[int](), list[int]()
    strays, there = {kind: list[str]() for kind in STRAYS}, set[tuple[int, int]]()

    def sort(files: Iterable[Path], images: list[str]) -> None:
        for file in sorted(files):
            part = images if _is_image(file) else strays["no-image"]
            part.append(file.relative_to(root).as_posix())

    sort(_files(root), strays["misplaced"])
    for place, (name, site) in enumerate(sites.items()):
        if site is None:
            continue
        there.add((place, -1))
        sort(_files(site), strays["misplaced"])
        classes, more = _choose(found[name], label_names)
        unexpected += more
        for label, folder in enumerate(classes.values()):
            if folder is None:
                continue
            there.add((place, label))
            sort(_files_below(folder), paths)
            labels += [label] * (len(paths) - len(labels))
            environments += [place] * (len(paths) - len(environments))
    strays["unexpected"] = [folder.relative_to(root).as_posix() for folder in unexpected]
    return FolderTree(
        root=root,
        environment_names=tuple(sites),
        label_names=tuple(label_names),
        paths=tuple(paths),
        labels=np.array(labels, dtype=np.int64),
        environments=np.array(environments, dtype=np.int64),
        folders=frozenset(there),
        strays=strays,
    )


def spell(name: str) -> str:
    """A name without the differences that copies of a dataset have."""
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


def _folders(path: Path, seen: set[tuple[int, int]]) -> list[Path]:
    """Folders in a folder that are not hidden; a link is followed once, lest it lead back."""
    kept = []
    for folder in sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")):
        if _inode(folder) in seen:
            warnings.warn(f"left out the link {folder}: its folder was already read", stacklevel=4)
        else:
            seen.add(_inode(folder))
            kept.append(folder)
    return kept


def _inode(folder: Path) -> tuple[int, int]:
    facts = folder.stat()
    return facts.st_dev, facts.st_ino


def _files(folder: Path) -> list[Path]:
    """Files directly in a folder that should hold folders."""
    return [p for p in folder.iterdir() if not p.is_dir() and not p.name.startswith(".")]


def _is_image(file: Path) -> bool:
    """By its name; a pipe or a device is no image whatever its name."""
    try:
        return file.suffix.lower() in SUFFIXES and stat.S_ISREG(file.stat().st_mode)
    except OSError:  # a link to nothing: an image that cannot be read
        return True


def _files_below(folder: Path) -> list[Path]:
    """Every file below a class folder that is not hidden; linked folders are not entered."""
    files = []
    for directory, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        files += [Path(directory) / name for name in names if not name.startswith(".")]
    return files


class ImageFiles(EnvironmentDataset):
    """Images in files, decoded once and then read from a cache."""

    def _decode(
        self,
        root: Path,
        paths: Sequence[str],
        image_size: int | Sequence[int] = IMAGE_SIZE,
        on_broken: str = "raise",
        cache: str | Path | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> NDArray[np.int64]:
        """Read the images; gives the positions of those that are kept."""
        check_choice("on_broken", on_broken, ("raise", "skip"))
        self._size = check_image_size(image_size)
        cache = choose_data_cache(cache)
        verbose = sys.stderr.isatty() if verbose is None else verbose
        digests = digest_files(root, paths, cache=cache, n_jobs=n_jobs, verbose=verbose)
        self._store, positions, self.skipped = cache_images(
            root, paths, digests, size=self._size, cache=cache, n_jobs=n_jobs, verbose=verbose
        )
        if self.skipped:
            told = f"{len(self.skipped)} of {len(paths)} images in {root} cannot be read: "
            told += list_some(self.skipped)
            if on_broken == "raise":
                raise ValueError(
                    f"{told}. Repair or remove them, or leave them out with on_broken='skip'"
                )
            warnings.warn(f"{told}. They are left out", stacklevel=3)
        kept = np.flatnonzero(positions >= 0)
        if len(kept) == 0:
            raise ValueError(f"none of the {len(paths)} images in {root} can be read")
        self.root, self._positions = root, positions[kept]
        self.paths = tuple(paths[int(i)] for i in kept)
        self._digests = [digests[i] for i in kept]
        self.input_shape = (3, *self._size)
        return kept

    def fetch_bytes(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Pixels as they are kept, 0…255 [B, 3, height, width]."""
        return self._store.read(self._positions[indices])

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(self.fetch_bytes(indices)).float().div_(255.0)

    def identify(self, indices: NDArray[np.int64]) -> list[bytes]:
        shape = f"{self._size[0]}x{self._size[1]}-{DECODING}".encode()
        return [self._digests[i] + shape for i in indices]


class ImageFolderEnvironments(ImageFiles):
    """Images in `root/<environment>/<class>/*.jpg`, decoded once and then read from a cache.

    Parameters
    ----------
    root : str or Path
        The directory that holds a folder for every environment.
    image_size : int or (height, width)
        What images are resized to.
    on_broken : str
        "raise" names every image that cannot be read; "skip" warns and goes on without.
    environment_names, label_names : sequence of str, optional
        Names and order of the folders; by default all, sorted.
    cache : str or Path, optional
        Directory of decoded images; by default $EQUIPOISE_CACHE or the user's cache.
    n_jobs, verbose : optional
        Threads, by default one for each processor; show progress, by default in a terminal.

    `paths` are the files of the examples, relative to `root`; `skipped` the broken ones.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        image_size: int | Sequence[int] = IMAGE_SIZE,
        on_broken: str = "raise",
        environment_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        cache: str | Path | None = None,
        n_jobs: int | None = None,
        verbose: bool | None = None,
    ) -> None:
        tree = scan_folders(root, environment_names=environment_names, label_names=label_names)
        if not tree.paths:
            misplaced = tree.strays["misplaced"]
            flat = "; images lie outside class folders, such as " if misplaced else ""
            flat += list_some(misplaced, 1)
            raise ValueError(f"{tree.root} holds no images as {tree.root}/{LAYOUT}{flat}")
        _warn_of_strays(tree)
        kept = self._decode(tree.root, tree.paths, image_size, on_broken, cache, n_jobs, verbose)
        # Given names stay, found ones are there only where images are.
        self.environment_names, self.environments = _name(
            tree.environments[kept], tree.environment_names, environment_names is not None
        )
        self.label_names, self.labels = _name(
            tree.labels[kept], tree.label_names, label_names is not None
        )


class ManifestEnvironments(ImageFiles):
    """Images that a table names: a column of paths, a label and an environment.

    Paths start at the table's directory. `columns` holds the table's further columns, a row for
    each example, such as covariates to be handed to `diagnose` as known.
    """

    def __init__(
        self,
        manifest: Path,
        table: pd.DataFrame,
        labels: NDArray,
        environments: NDArray,
        *,
        path: str,
        **settings: Any,
    ) -> None:
        kept = self._decode(manifest.parent, [str(name) for name in table[path]], **settings)
        label_names, self.labels = np.unique(labels[kept], return_inverse=True)
        site_names, self.environments = np.unique(environments[kept], return_inverse=True)
        self.label_names = tuple(str(name) for name in label_names)
        self.environment_names = tuple(str(name) for name in site_names)
        self.columns = table.drop(columns=path).iloc[kept].reset_index(drop=True)


def check_image_size(size: int | Sequence[int]) -> Size:
    """Height and width from a side or both."""
    sides: Any = (size, size) if type(size) is int else size
    whole = isinstance(sides, tuple | list) and all(type(side) is int for side in sides)
    if not whole or len(sides) != 2 or not all(0 < side <= 10_000 for side in sides):
        raise ValueError(
            f"image_size must be a side or (height, width) in pixels, got {show(size)}"
        )
    return sides[0], sides[1]


def _warn_of_strays(tree: FolderTree) -> None:
    counts = tree.count()
    left = {f"left out {told}": tree.strays[kind] for kind, (_, told) in STRAYS.items()}
    left = dict(reversed(left.items())) | {
        "environments without images": [*compress(tree.environment_names, counts.sum(axis=1) == 0)],
        "classes without images": [*compress(tree.label_names, counts.sum(axis=0) == 0)],
    }
    for kind, names in left.items():
        if names:
            warnings.warn(f"{kind} in {tree.root}: {list_some(names)}", stacklevel=3)


def _name(
    codes: NDArray[np.int64], names: tuple[str, ...], keep_all: bool
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names and codes, without the names that no example has unless all are to stay."""
    if keep_all:
        return names, codes
    seen, found = np.unique(codes, return_inverse=True)
    return tuple(names[i] for i in seen), found.astype(np.int64)
