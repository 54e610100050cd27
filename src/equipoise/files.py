"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
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


class UnusableState(ValueError):
    """A saved state that is damaged, or that belongs to something else."""


def save_state(path: str | Path, tensors: Mapping[str, torch.Tensor], facts: Any) -> None:
    """Write tensors and JSON facts as one safetensors file with a checksum, whole.

    A full disk is an OSError that says so.
    """
    plain: dict[str, torch.Tensor] = {}
    stored = set()
    for name, tensor in tensors.items():
        content = tensor.detach().cpu().contiguous()
        place = content.untyped_storage().data_ptr()
        # The format knows no shared memory, as of tied weights.
        plain[name] = content.clone() if place in stored else content
        stored.add(place)
    # One entry: the format writes several in any order, and equal states should be equal files.
    metadata = {"state": json.dumps({"facts": facts, "sha256": _checksum(plain)})}
    try:
        with write_whole(path) as temporary:
            save_file(plain, temporary, metadata=metadata)
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"{path} could not be written ({error}); what was saved before is intact. Make room "
            "and give the same command again"
        ) from error


def load_state(path: str | Path) -> tuple[dict[str, torch.Tensor], Any]:
    """Read what `save_state` wrote; a damaged file is an `UnusableState` that names it."""
    path = Path(path)
    if not path.is_file():
        raise UnusableState(f"no saved state at {path}")
    try:
        with safe_open(path, framework="pt") as opened:
            state = json.loads(opened.metadata()["state"])
        facts, tensors = state["facts"], load_file(path)
        whole = state["sha256"] == _checksum(tensors)
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise UnusableState(
            f"{path} is not a readable saved state ({error}); delete it or restore a copy"
        ) from error
    if not whole:
        raise UnusableState(f"{path} is damaged: its checksum does not fit")
    return tensors, facts


def _checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
