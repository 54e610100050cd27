"""The SHA-256 of many files, each read again only when it has changed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pandas as pd

from equipoise.data.cache import count_threads
from equipoise.files import write_whole
from equipoise.progress import track

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
    """A digest for every path below `root`; empty bytes where a file cannot be read.

    Digests are remembered in `cache` beside the file's size and time, so that a second call on
    a large tree reads nothing but its directory.
    """
    started = time.time_ns()
    known = _Known(cache, root)
    states = [_look(root / path) for path in paths]
    digests: list[bytes | None] = [
        known.find(path, state) for path, state in zip(paths, states, strict=True)
    ]
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
            known.remember(paths, states, digests, before=started - SETTLED_NANOSECONDS)
    return [digest or b"" for digest in digests]


class _Known:
    """Digests of one tree as they were last seen."""

    def __init__(self, cache: Path, root: Path) -> None:
        name = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
        self.file = cache / "digests" / f"{name}.parquet"
        self.entries: dict[str, tuple[State, bytes]] = {}
        try:
            table = pd.read_parquet(self.file)
            for path, size, changed, digest in table.itertuples(index=False):
                self.entries[path] = ((size, changed), digest)
        except (OSError, ValueError):
            self.entries = {}  # nothing there, or damaged: all is read again

    def find(self, path: str, state: State | None) -> bytes | None:
        seen = self.entries.get(path)
        return seen[1] if seen is not None and seen[0] == state else None

    def remember(
        self,
        paths: Sequence[str],
        states: Sequence[State | None],
        digests: Sequence[bytes | None],
        *,
        before: int,
    ) -> None:
        for path, state, digest in zip(paths, states, digests, strict=True):
            if state is not None and digest and state[1] < before:
                self.entries[path] = (state, digest)
        rows = [(path, *state, digest) for path, (state, digest) in self.entries.items()]
        table = pd.DataFrame(rows, columns=["path", "size", "changed", "digest"])
        with write_whole(self.file) as temporary:
            table.to_parquet(temporary, index=False)


def _look(path: Path) -> State | None:
    try:
        seen = path.stat()
    except OSError:
        return None
    return seen.st_size, seen.st_mtime_ns


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return b""
