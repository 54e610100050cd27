"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file


@contextlib.contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it over `path` if the block succeeds.

    A reader sees the old file or the new one, never a part; an error leaves no litter.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync_directory(path: Path) -> None:
    """Let the new name survive a power cut, where the system can (Windows cannot)."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_parts(directory: str | Path, name: str = "*") -> None:
    """Remove what a killed `write_whole` of `name`, or of any file, left in a directory.

    Only for files that nobody else is writing.
    """
    for part in Path(directory).glob(f".{name}.*.part"):
        part.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | Path, content: Any) -> None:
    """Write `content` as indented JSON, whole."""
    with write_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def save_state(path: str | Path, tensors: Mapping[str, torch.Tensor], facts: Any) -> None:
    """Write tensors and JSON facts as one safetensors file: both are there, or neither."""
    plain: dict[str, torch.Tensor] = {}
    stored = set()
    for name, tensor in tensors.items():
        content = tensor.detach().cpu().contiguous()
        place = content.untyped_storage().data_ptr()
        # The format knows no shared memory, as of tied weights.
        plain[name] = content.clone() if place in stored else content
        stored.add(place)
    with write_whole(path) as temporary:
        save_file(plain, temporary, metadata={"facts": json.dumps(facts)})


def load_state(path: str | Path) -> tuple[dict[str, torch.Tensor], Any]:
    """Read what `save_state` wrote; a damaged file is a ValueError that names it."""
    from safetensors import safe_open

    path = Path(path)
    if not path.is_file():
        raise ValueError(f"no saved state at {path}")
    try:
        with safe_open(path, framework="pt") as opened:
            facts = json.loads(opened.metadata()["facts"])
        return load_file(path), facts
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path} is not a readable saved state ({error}); delete it or restore a copy"
        ) from error
