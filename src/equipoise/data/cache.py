"""Where decoded images and features are kept between runs, each made once."""

from __future__ import annotations

import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from equipoise.checks import check_count
from equipoise.files import DamagedFile, hold_lock, read_json, tell_write_errors, write_json


def choose_data_cache(given: str | Path | None = None) -> Path:
    """The given directory, else $EQUIPOISE_CACHE, or equipoise in the user's cache."""
    if given is not None:
        return Path(given).expanduser()
    if own := os.environ.get("EQUIPOISE_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def count_threads(n_jobs: int | None) -> int:
    """As many threads as asked for, by default one for every processor this process may use."""
    if n_jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4
    return check_count("n_jobs", n_jobs)


VERSION = 2
DIGEST_BYTES = 32  # SHA-256
ENTRY = np.dtype([("digest", np.uint8, DIGEST_BYTES), ("sum", "<u4")])
ENTRY_BYTES = ENTRY.itemsize


class RowStore:
    """Rows of one shape and type in a memory-mapped file, found by a digest of their origin.

    Rows are only ever appended, and a digest is written after its row: a process that is killed
    loses the block it was writing and no more. One process writes at a time, any number read.
    """

    def __init__(self, path: Path, shape: Sequence[int], dtype: DTypeLike) -> None:
        self.path, self.shape, self.dtype = Path(path), tuple(shape), np.dtype(dtype)
        self._rows, self._digests = self.path / "rows.bin", self.path / "digests.bin"
        self._row_bytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        self._mapped: NDArray[Any] | None = None
        self._entries: NDArray[Any] = np.empty(0, dtype=ENTRY)
        self._is_checked: NDArray[np.bool_] = np.empty(0, dtype=bool)
        expected = {"version": VERSION, "shape": list(self.shape), "dtype": self.dtype.str}
        found = _read_facts(self.path)
        if found is not None and found != expected:
            raise DamagedFile(
                f"{self.path} holds rows of {found}, expected {expected}; delete that directory"
            )
        if found is None:
            write_json(self.path / "store.json", expected)

    @classmethod
    def reopen(cls, path: Path) -> RowStore | None:
        """The store at `path` with the shape and type it was made with; None if there is none."""
        facts = _read_facts(Path(path))
        return None if facts is None else cls(path, facts["shape"], facts["dtype"])

    def __len__(self) -> int:
        """Rows that are complete: those with their digest."""
        return min(_size(self._digests) // ENTRY_BYTES, _size(self._rows) // self._row_bytes)

    def _read_entries(self) -> NDArray[Any]:
        """Digest and checksum of every row."""
        with self._digests.open("rb") if len(self) else io.BytesIO() as file:
            content = file.read(len(self) * ENTRY_BYTES)
        return np.frombuffer(content, dtype=ENTRY)

    def find(self, digests: Sequence[bytes]) -> NDArray[np.int64]:
        """The position of each digest's row, −1 where there is none."""
        known = self._read_entries()["digest"]
        places = {digest.tobytes(): place for place, digest in enumerate(known)}
        return np.array([places.get(digest, -1) for digest in digests], dtype=np.int64)

    @contextmanager
    def writing(self, *, verbose: bool = False) -> Iterator[None]:
        """Be the one process that adds rows; wait for another one to end, and say so."""

        def tell() -> None:
            if verbose:
                print(f"waiting for another process that writes {self.path}", file=sys.stderr)

        with hold_lock(self.path / ".lock", on_wait=tell):
            n = len(self)
            for file, width in ((self._rows, self._row_bytes), (self._digests, ENTRY_BYTES)):
                if _size(file) > n * width:
                    os.truncate(file, n * width)
            yield

    def add(self, digests: Sequence[bytes], rows: NDArray[Any]) -> None:
        """Append rows [B, *shape]; only inside `writing`."""
        if rows.shape != (len(digests), *self.shape) or rows.dtype != self.dtype:
            raise ValueError(
                f"rows of {self.path} are {self.dtype} {self.shape}, got {len(digests)} digests "
                f"and {rows.dtype} {rows.shape}"
            )
        entries = np.zeros(len(rows), dtype=ENTRY)
        entries["digest"] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_BYTES)
        entries["sum"] = [_sum(*pair) for pair in zip(digests, rows, strict=True)]
        _append(self._rows, np.ascontiguousarray(rows).data)
        _append(self._digests, entries.tobytes())

    def read(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """A copy of the rows at `positions` [B, *shape], each checked when it is first read."""
        if self._mapped is None or len(self._mapped) <= positions.max(initial=-1):
            self._entries = self._read_entries()
            self._is_checked = np.zeros(len(self._entries), dtype=bool)
            shape = (len(self._entries), *self.shape)
            if len(self._entries) == 0:
                self._mapped = np.empty(shape, dtype=self.dtype)
            else:
                self._mapped = np.memmap(self._rows, dtype=self.dtype, mode="r", shape=shape)
        rows = np.asarray(self._mapped[positions])
        for place in np.flatnonzero(~self._is_checked[positions]):
            entry = self._entries[positions[place]]
            if _sum(entry["digest"].tobytes(), rows[place]) != entry["sum"]:
                raise DamagedFile(
                    f"{self.path} is damaged: row {positions[place]} does not fit its checksum; "
                    "delete that directory, and it is made again"
                )
        self._is_checked[positions] = True
        return rows

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapping: a worker process opens the file itself, not a copy of it."""
        return {**self.__dict__, "_mapped": None, "_entries": None, "_is_checked": None}


def _read_facts(path: Path) -> Any:
    file = path / "store.json"
    if not file.exists():
        return None
    schema = {"version": int, "shape": [int], "dtype": str}
    return read_json(file, schema, hint="delete that directory, and it is made again")


def _sum(digest: bytes, row: NDArray[Any]) -> int:
    return zlib.crc32(np.ascontiguousarray(row).data, zlib.crc32(digest))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(path: Path, content: bytes | memoryview) -> None:
    with tell_write_errors(path), path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
