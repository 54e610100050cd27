"""Where decoded images, digests and features are kept between runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console


def choose_data_cache(given: str | Path | None = None) -> Path:
    """The given directory, else $EQUIPOISE_CACHE, $XDG_CACHE_HOME/equipoise or ~/.cache/equipoise.

    >>> choose_data_cache("kept").name
    'kept'
    """
    if given is not None:
        return Path(given).expanduser()
    own = os.environ.get("EQUIPOISE_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "equipoise"


def tell_wait(path: Path, verbose: bool) -> Callable[[], None]:
    """What to do while another process writes to a cache: say so, and so look less hung."""

    def tell() -> None:
        if verbose:
            Console(stderr=True).print(f"waiting for another process that writes {path}")

    return tell


def count_threads(n_jobs: int | None) -> int:
    """As many threads as asked for, by default one for every processor this process may use."""
    if n_jobs is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4
    if n_jobs < 1:
        raise ValueError(f"n_jobs must be at least 1, got {n_jobs}")
    return n_jobs
