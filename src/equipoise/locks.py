"""Locks between processes that end with their owner, however it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from equipoise.files import tell_write_errors


class Locked(Exception):
    """Another process holds the lock; its text is what that process left in the file."""


@contextmanager
def hold_lock(path: Path, *, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock file at `path` inside the block.

    If another process has it: wait for it after calling `on_wait`, or, without that, raise
    `Locked`. The system frees a lock when its owner dies, so none is ever stale.
    """
    import fcntl  # not there on Windows, where the rest of the package works

    with tell_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("a+b", buffering=0)
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is None:
                file.seek(0)
                raise Locked(file.read().decode(errors="replace").strip() or "unknown") from None
            on_wait()
            fcntl.flock(file, fcntl.LOCK_EX)
        with tell_write_errors(path):
            file.truncate(0)
            file.write(str(os.getpid()).encode())
        yield


@contextmanager
def own_directory(path: str | Path) -> Iterator[None]:
    """Be the one process that writes to a directory; a second one is told which is the first."""
    path = Path(path)
    try:
        with hold_lock(path / ".lock"):
            yield
    except Locked as owner:
        raise ValueError(
            f"process {owner} is writing to {path}; wait for it, end it, or choose another output"
        ) from None
