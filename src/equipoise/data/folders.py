"""A folder tree of images, `root/<environment>/<class>/*.jpg`, as environments."""

from __future__ import annotations

import os
import stat
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from equipoise.data.images import DECODING, BrokenImage, Size, cache_images, digest_files

LAYOUT = "<environment>/<class>/*.jpg"
# What Pillow can open and people keep pictures in.
SUFFIXES = frozenset(
    [".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".pbm", ".tif", ".tiff", ".webp"]
)


Inode = tuple[int, int]


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
    root = check_path("root", root)
    if not root.is_dir():
        raise ValueError(f"there is no directory {root}; expected {root}/{LAYOUT}")
    seen = {(root.stat().st_dev, root.stat().st_ino)}
    sites, unexpected = _choose(_folders(root, seen), environment_names)
    found = {name: _folders(folder, seen) if folder else [] for name, folder in sites.items()}
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


def _folders(path: Path, seen: set[Inode]) -> list[Path]:
    """Folders in a folder, without hidden ones and those that were already seen under a name.

    A link to a folder is followed once: one that leads back would go on without end.
    """
    there = sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))
    return [folder for folder in there if _take(folder, seen)]


def _take(folder: Path, seen: set[Inode]) -> bool:
    facts = folder.stat()
    key = (facts.st_dev, facts.st_ino)
    if key in seen:
        warnings.warn(f"left out the link {folder}: its folder was already read", stacklevel=5)
        return False
    seen.add(key)
    return True


def _loose_files(root: Path, folder: Path) -> tuple[list[str], list[str]]:
    """Files directly in a folder that should hold folders: those that are no images, and images."""
    files = [p for p in folder.iterdir() if not p.is_dir() and not p.name.startswith(".")]
    images, others = _split_images(root, files)
    return others, images


def _split_images(root: Path, files: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Images by their names, and the rest; a pipe or a device is no image whatever its name."""
    images, others = list[str](), list[str]()
    for file in sorted(files):
        part = images if file.suffix.lower() in SUFFIXES and _is_regular(file) else others
        part.append(file.relative_to(root).as_posix())
    return images, others


def _is_regular(file: Path) -> bool:
    try:
        mode = file.stat().st_mode
    except OSError:  # a link to nothing: an image that cannot be read
        return True
    return stat.S_ISREG(mode)


def _files_below(folder: Path) -> list[Path]:
    """Every file below a class folder that is not hidden; linked folders are not entered."""
    files = []
    for directory, below, names in os.walk(folder):
        below[:] = [name for name in below if not name.startswith(".")]
        files += [Path(directory) / name for name in names if not name.startswith(".")]
    return files


IMAGE_SIZE = 224  # the published benchmarks'
ON_BROKEN = ("raise", "skip")


class ImageFiles(EnvironmentDataset):
    """Images in files, decoded once and then read from a cache.

    `paths` are the files of the examples, relative to `root`; `skipped` the broken ones.
    """

    def _decode(
        self,
        root: Path,
        paths: Sequence[str],
        *,
        image_size: int | Sequence[int],
        on_broken: str,
        cache: str | Path | None,
        n_jobs: int | None,
        verbose: bool | None,
    ) -> NDArray[np.int64]:
        """Read the images; gives the positions of those that are kept."""
        check_choice("on_broken", on_broken, ON_BROKEN)
        self._size = check_image_size(image_size)
        cache = choose_data_cache(cache)
        verbose = sys.stderr.isatty() if verbose is None else verbose
        digests = digest_files(root, paths, cache=cache, n_jobs=n_jobs, verbose=verbose)
        self._store, positions, self.skipped = cache_images(
            root, paths, digests, size=self._size, cache=cache, n_jobs=n_jobs, verbose=verbose
        )
        if self.skipped:
            _tell_broken(root, len(paths), self.skipped, on_broken)
        kept = np.flatnonzero(positions >= 0)
        if len(kept) == 0:
            raise ValueError(f"none of the {len(paths)} images in {root} can be read")
        self.root = root
        self.paths = tuple(paths[int(i)] for i in kept)
        self._positions = positions[kept]
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
    n_jobs : int, optional
        Threads that read and decode; by default one for each processor.
    verbose : bool, optional
        Show progress; by default where a terminal would show it.

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
        _check_tree(tree)
        _warn_of_strays(tree)
        kept = self._decode(
            tree.root,
            tree.paths,
            image_size=image_size,
            on_broken=on_broken,
            cache=cache,
            n_jobs=n_jobs,
            verbose=verbose,
        )
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
    """Height and width from a side or both.

    >>> check_image_size(32)
    (32, 32)
    """
    sides: Any = (size, size) if type(size) is int else size
    whole = isinstance(sides, tuple | list) and all(type(side) is int for side in sides)
    if not whole or len(sides) != 2 or not all(0 < side <= 10_000 for side in sides):
        raise ValueError(
            f"image_size must be a side or (height, width) in pixels, got {show(size)}"
        )
    return sides[0], sides[1]


def _check_tree(tree: FolderTree) -> None:
    if tree.paths:
        return
    flat = (
        f"; images lie outside class folders, such as {list_some(tree.misplaced, 1)}"
        if tree.misplaced
        else ""
    )
    raise ValueError(f"{tree.root} holds no images as {tree.root}/{LAYOUT}{flat}")


def _warn_of_strays(tree: FolderTree) -> None:
    left: dict[str, Sequence[str]] = {
        "files that are no images": tree.no_images,
        "images outside a class folder": tree.misplaced,
        "unknown folders": tree.unexpected,
    }
    for kind, names in left.items():
        if names:
            warnings.warn(f"left out {kind} in {tree.root}: {list_some(names)}", stacklevel=3)
    counts = tree.count()
    left = {
        "environments": [
            name for name, row in zip(tree.environment_names, counts, strict=True) if not row.any()
        ],
        "classes": [
            name
            for name, column in zip(tree.label_names, counts.T, strict=True)
            if not column.any()
        ],
    }
    for kind, names in left.items():
        if names:
            warnings.warn(f"{kind} without images in {tree.root}: {list_some(names)}", stacklevel=3)


def _tell_broken(
    root: Path, n_images: int, broken: tuple[BrokenImage, ...], on_broken: str
) -> None:
    told = f"{len(broken)} of {n_images} images in {root} cannot be read: "
    told += list_some(broken)
    if on_broken == "skip":
        warnings.warn(f"{told}. They are left out", stacklevel=3)
        return
    raise ValueError(f"{told}. Repair or remove them, or leave them out with on_broken='skip'")


def _name(
    codes: NDArray[np.int64], names: tuple[str, ...], keep_all: bool
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names and codes, without the names that no example has unless all are to stay."""
    if keep_all:
        return names, codes
    seen, found = np.unique(codes, return_inverse=True)
    return tuple(names[i] for i in seen), found.astype(np.int64)
