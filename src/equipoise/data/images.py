"""Images decoded in parallel, resized once and kept as a memory-mapped array of bytes."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import time
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.checks import require
from equipoise.data.cache import RowStore, count_threads
from equipoise.files import check_regular, write_whole
from equipoise.progress import track

# Part of a cached image's name: to be raised when decoding below changes.
DECODING = "v1"
BLOCK_BYTES = 32 * 2**20
DEEP_MODES = ("I", "F")  # and I;16, I;16B, …

Size = tuple[int, int]  # height, width


class BrokenImage(NamedTuple):
    """An image that could not be read, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})"


def cache_images(
    root: Path,
    paths: Sequence[str],
    digests: Sequence[bytes],
    *,
    size: Size,
    cache: Path,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> tuple[RowStore, NDArray[np.int64], tuple[BrokenImage, ...]]:
    """Decode the images whose content is not in the cache yet; equal content is decoded once.

    Gives the store, the row in it of each path (−1 for a broken image), and the broken ones with
    the reason. Every finished block is kept: an interrupted call goes on where it stopped.
    """
    height, width = size
    store = RowStore(cache / "images" / f"{height}x{width}-{DECODING}", (3, *size), np.uint8)
    positions = store.find(digests)
    broken: dict[bytes, str] = {}
    if (positions < 0).any():
        with store.writing(verbose=verbose):
            positions = store.find(digests)  # another process may have been faster
            first = {digests[i]: root / paths[i] for i in np.flatnonzero(positions < 0).tolist()}
            broken = _decode_into(store, first, size, n_jobs, verbose)
        positions = store.find(digests)
    failed = (
        BrokenImage(paths[i], broken[digests[i]]) for i in np.flatnonzero(positions < 0).tolist()
    )
    return store, positions, tuple(failed)


def _decode_into(
    store: RowStore, wanted: dict[bytes, Path], size: Size, n_jobs: int | None, verbose: bool
) -> dict[bytes, str]:
    """Decode and keep images block by block; gives the reasons of those that are broken."""
    row_bytes = 3 * size[0] * size[1]
    needed, free = len(wanted) * row_bytes, shutil.disk_usage(store.path).free
    if needed > free:
        raise OSError(
            f"the decoded images need {needed / 1e9:.1f} GB in {store.path}, where "
            f"{free / 1e9:.1f} GB are free; set EQUIPOISE_CACHE to a larger disk, or take a "
            "smaller image size"
        )
    digests, reasons = list(wanted), dict[bytes, str]()
    block = max(1, BLOCK_BYTES // row_bytes)
    with (
        ThreadPoolExecutor(count_threads(n_jobs)) as pool,
        track(len(wanted), "decoding images", enabled=verbose) as tracker,
    ):
        for start in range(0, len(wanted), block):
            part = digests[start : start + block]
            decoded = pool.map(lambda digest: load_image(wanted[digest], size, digest), part)
            good = dict[bytes, NDArray[np.uint8]]()
            for digest, found in zip(part, decoded, strict=True):
                if isinstance(found, str):
                    reasons[digest] = found
                else:
                    good[digest] = found
            if good:
                store.add(list(good), np.stack(list(good.values())))
            tracker.reach(start + len(part), f"{len(reasons)} broken" if reasons else None)
    return reasons


def load_image(path: Path, size: Size, digest: bytes | None = None) -> NDArray[np.uint8] | str:
    """The pixels of a file, which must have the digest if one is given; or why there are none."""
    try:
        content = (path if digest is None else check_regular(path)).read_bytes()
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return str(error).removeprefix(f"{path} ")
    if digest is not None and hashlib.sha256(content).digest() != digest:
        return "it changed while it was read"
    try:
        return decode_image(content, size)
    except require("PIL", extra="images").UnidentifiedImageError:
        return "not an image" if content else "an empty file"
    except Exception as error:  # Pillow's readers raise all kinds on damaged content
        return str(error) or type(error).__name__


def decode_image(content: bytes, size: Size) -> NDArray[np.uint8]:
    """The bytes of an image file as RGB pixels [3, height, width], its sides scaled apart."""
    Image = require("PIL.Image", extra="images")
    with Image.open(io.BytesIO(content)) as image:
        if image.mode.startswith(DEEP_MODES):
            raise ValueError(f"its pixels are not 8 bits deep (mode {image.mode}): convert it")
        height, width = size
        # A JPEG can be decoded at a fraction of its size: twice what is needed loses nothing seen.
        image.draft("RGB", (2 * width, 2 * height))
        # Colours of a palette first get their transparency, which Pillow would warn of.
        rgb = (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")
        if rgb.size != (width, height):
            rgb = rgb.resize((width, height), Image.Resampling.BILINEAR)
        return np.ascontiguousarray(np.asarray(rgb, dtype=np.uint8).transpose(2, 0, 1))


BLOCK = 4096
# A file may be written again within the same tick of its clock: so young ones are not remembered.
SETTLED_NANOSECONDS = 2_000_000_000

State = tuple[int, int]  # size, time of the last change


def digest_files(
    root: Path,
    paths: Sequence[str],
    *,
    cache: Path,
    n_jobs: int | None = None,
    verbose: bool = False,
) -> list[bytes]:
    """A digest for every path below `root`, remembered by size and time; b"" if unreadable."""
    started = time.time_ns()
    known = KnownDigests(cache, root)
    states = [_look(root / path) for path in paths]
    digests = [known.find(*each) for each in zip(paths, states, strict=True)]
    missing = [place for place, digest in enumerate(digests) if digest is None]
    try:
        with (
            ThreadPoolExecutor(count_threads(n_jobs)) as pool,
            track(len(missing), "reading files", enabled=verbose and bool(missing)) as tracker,
        ):
            for start in range(0, len(missing), BLOCK):
                block = missing[start : start + BLOCK]
                files = [root / paths[i] for i in block]
                for place, digest in zip(block, pool.map(_digest, files), strict=True):
                    digests[place] = digest
                tracker.reach(start + len(block))
    finally:  # also when interrupted: what was read is not read again
        if missing:
            seen = zip(paths, states, digests, strict=True)
            settled = started - SETTLED_NANOSECONDS
            known.remember({p: (s, d) for p, s, d in seen if s and d and s[1] < settled})
    return [digest or b"" for digest in digests]


class KnownDigests:
    """Digests of one tree as they were last seen."""

    def __init__(self, cache: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
        self.file = cache / "digests" / f"{name}.parquet"
        self.entries: dict[str, tuple[State, bytes]] = {}
        require("pyarrow", extra="images")
        try:
            for *entry, total in pd.read_parquet(self.file).itertuples(index=False):
                if _sum(entry) == total:  # else it is damaged, and that file is read again
                    path, size, changed, digest = entry
                    self.entries[path] = ((size, changed), digest)
        except Exception:  # nothing there, or damaged in one of the ways that Parquet has
            self.entries = {}

    def find(self, path: str, state: State | None) -> bytes | None:
        seen, digest = self.entries.get(path, (None, None))
        return digest if seen == state else None

    def remember(self, entries: dict[str, tuple[State, bytes]]) -> None:
        self.entries |= entries
        rows = [(path, *state, digest) for path, (state, digest) in self.entries.items()]
        table = pd.DataFrame(rows, columns=["path", "size", "changed", "digest"])
        table["sum"] = [_sum(row) for row in rows]
        with write_whole(self.file) as temporary:
            table.to_parquet(temporary, index=False)


def _sum(entry: Sequence[object]) -> int:
    return zlib.crc32(repr(tuple(entry)).encode("utf-8", "surrogateescape"))


def _look(path: Path) -> State | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_size, seen.st_mtime_ns


def _digest(path: Path) -> bytes:
    try:
        with check_regular(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (OSError, ValueError):
        return b""
