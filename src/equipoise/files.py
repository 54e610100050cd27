"""Files that are written whole or not at all, and checked when they are read.

Every file that the package writes for itself carries a digest, which finds damage, not forgery.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
import types
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from equipoise.checks import check_memory, check_path, show

#: No JSON file of ours is larger, and no file of anyone else is read that is.
MOST_JSON_BYTES = 2**28
DIGEST = "digest"
#: Of saved states; a file of another version is refused.
STATE_VERSION = 2
#: Bytes that are summed together, and bytes that are summed in one call.
PAGE, PART = 4096, 2**24
#: An odd weight for each word of a page: one flipped bit always changes the sum.
WEIGHTS = np.arange(1, PAGE // 2, 2, dtype=np.uint32) * np.uint32(0x9E3779B1)


class DamagedFile(ValueError):
    """A file that is there and does not hold what it should: which, where, and what to do."""


class UnusableState(DamagedFile):
    """A saved state that is damaged, or that belongs to something else."""


class WriteFailed(OSError):
    """A file that could not be written; what was there before is intact."""


@contextlib.contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it over `path` if the block succeeds.

    A reader sees the old file or the new one, never a part; an error leaves no litter. A full
    disk or a read-only place is a `WriteFailed` that says so.
    """
    path = Path(path)
    with tell_write_errors(path):
        _refuse_special(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(4)}.part"
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode  # a writer may put a file of another mode in its place
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
            _sync_directory(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def tell_write_errors(path: str | Path) -> Iterator[None]:
    """Turn whatever a write raises into one sentence."""
    try:
        yield
    except WriteFailed:
        raise
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        told = re.search(r"os error (\d+)", str(error))  # as safetensors has it
        number = int(told[1]) if told else getattr(error, "errno", None)
        advice = "Choose another place, or make this one writable"
        if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            advice = "Make room and give the same command again"
        failed = WriteFailed(
            f"{path} could not be written ({reason}); what was saved before is intact. {advice}"
        )
        failed.errno = number
        raise failed from error


def _refuse_special(path: Path) -> None:
    """Refuse to put a file in the place of a directory, a pipe or a device."""
    if path.exists() and not path.is_file():
        kind = _name_kind(path.stat().st_mode)
        raise WriteFailed(f"{path} is {kind}; choose another name for the file")


def _name_kind(mode: int) -> str:
    return "a directory" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"


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


def write_json(path: str | Path, content: Any) -> None:
    """Write `content` as indented JSON, whole; a dictionary gets a digest of its content."""
    if isinstance(content, Mapping):
        content = stamp(content)
    with write_whole(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def make_plain(value: Any) -> Any:
    """The same in the types that a JSON file gives back: lists, dictionaries, Python numbers.

    >>> make_plain({"hidden": (8, np.int64(4))})
    {'hidden': [8, 4]}
    """
    if isinstance(value, Mapping):
        return {str(key): make_plain(content) for key, content in value.items()}
    if isinstance(value, tuple | list):
        return [make_plain(content) for content in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def save_state(path: str | Path, tensors: Mapping[str, torch.Tensor], facts: Any) -> None:
    """Write tensors and JSON facts as one safetensors file with a digest, whole."""
    plain: dict[str, torch.Tensor] = {}
    stored = set()
    for name, tensor in tensors.items():
        content = tensor.detach().cpu().contiguous()
        place = content.untyped_storage().data_ptr()
        # The format knows no shared memory, as of tied weights.
        plain[name] = content.clone() if place in stored else content
        stored.add(place)
    # One entry: the format writes several in any order, and equal states should be equal files.
    state = {"version": STATE_VERSION, "facts": facts, DIGEST: _digest_state(plain, facts)}
    with write_whole(path) as temporary:
        save_file(plain, temporary, metadata={"state": json.dumps(state)})


def stamp(content: Mapping[str, Any]) -> dict[str, Any]:
    """A dictionary with a digest of the rest as its last entry.

    >>> stamp({"a": 1})["digest"] == stamp({"a": 1, "digest": "other"})["digest"]
    True
    """
    rest = {key: value for key, value in content.items() if key != DIGEST}
    text = json.dumps(json.loads(json.dumps(rest)), sort_keys=True)
    return {**rest, DIGEST: hashlib.blake2b(text.encode(), digest_size=8).hexdigest()}


def is_intact(content: Any) -> bool:
    """Whether a dictionary is as `stamp` left it."""
    return isinstance(content, dict) and stamp(content)[DIGEST] == content.get(DIGEST)


def write_line(record: Mapping[str, Any]) -> str:
    """A record as a line of JSON with a digest of its own, for files that grow."""
    return json.dumps(stamp(record)) + "\n"


def read_line(line: bytes) -> dict[str, Any]:
    """The record in a line of `write_line`; a ValueError says what is wrong with it."""
    content = json.loads(line)
    if not is_intact(content) or json.dumps(content).encode() != line:
        raise ValueError("its content does not fit its digest")
    del content[DIGEST]
    return dict(content)


def _digest_state(tensors: Mapping[str, torch.Tensor], facts: Any) -> str:
    """BLAKE2 of names, shapes, facts and the sums of pages, so that it is as fast as memory."""
    digest = hashlib.blake2b(json.dumps(facts).encode(), digest_size=16)
    ordered = {name: tensors[name] for name in sorted(tensors)}
    for name, tensor in ordered.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
    for content in (each.reshape(-1).view(torch.uint8).numpy() for each in ordered.values()):
        for start in range(0, len(content), PART):
            digest.update(_sum_pages(content[start : start + PART]))
    return digest.hexdigest()


def _sum_pages(content: NDArray[np.uint8]) -> bytes:
    """A weighted sum of each whole page, and what is left over as it is."""
    end = len(content) // PAGE * PAGE
    words = content[:end].view(np.uint32).reshape(-1, len(WEIGHTS))
    sums: NDArray[np.uint32] = np.einsum("ij,j->i", words, WEIGHTS)
    return sums.tobytes() + content[end:].tobytes()


def check_regular(path: str | Path) -> Path:
    """Refuse what is no regular file: a pipe or a device would be waited for without end."""
    path = check_path("path", path)
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{path} cannot be read: {reason}") from error
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path} is {_name_kind(mode)}; expected a regular file")
    return path


def read_json(
    path: str | Path,
    schema: Any = Any,
    *,
    stamped: bool = True,
    hint: str = "delete it, or restore a copy",
) -> Any:
    """Read a JSON file and check it; whatever is wrong with it is a `DamagedFile`.

    `schema` is what it must hold, see `check_fields`; `stamped`, whether it must carry the digest
    that `write_json` gives, which is taken off; `hint`, what to do about a damaged one.
    """
    path = check_regular(path)
    try:
        if path.stat().st_size > MOST_JSON_BYTES:
            raise ValueError(f"it is larger than {MOST_JSON_BYTES >> 20} MB")
        text = path.read_text(encoding="utf-8")
        content = json.loads(text)
        if stamped and not (is_intact(content) and text == json.dumps(content, indent=2) + "\n"):
            raise ValueError("its content does not fit its digest")
        if stamped:
            del content[DIGEST]
        check_fields(content, schema)
    except (OSError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise DamagedFile(f"{path} is damaged ({reason}); {hint}") from error
    return content


def check_fields(value: Any, schema: Any, place: str = "") -> None:
    """Check plain values against a schema; the field at fault is named in the ValueError.

    A schema is a type (or a union of them), `Any`, `[schema]` for a list of such values, or a
    dictionary of fields, of which those ending in "?" may be missing.

    >>> check_fields({"names": ["a"]}, {"names": [str], "note?": str | None})
    >>> check_fields({"names": [1]}, {"names": [str]})
    Traceback (most recent call last):
    ValueError: names[0] must be str, got 1
    """
    kind = type(schema) if isinstance(schema, dict | list) else schema
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
    allowed = {*kinds, int} if float in kinds else set(kinds)
    if schema is not Any and type(value) not in allowed:
        names = ["null" if k is types.NoneType else k.__name__ for k in kinds]
        raise ValueError(
            f"{place or 'its content'} must be {' or '.join(names)}, got {show(value)}"
        )
    if isinstance(schema, dict):
        for name, inner in schema.items():
            field = name.removesuffix("?")
            where = f"{place}.{field}" if place else field
            if field in value:
                check_fields(value[field], inner, where)
            elif not name.endswith("?"):
                raise ValueError(f"{where} is missing")
    elif isinstance(schema, list):
        for position, each in enumerate(value):
            check_fields(each, schema[0], f"{place}[{position}]")


def load_state(path: str | Path) -> tuple[dict[str, torch.Tensor], Any]:
    """Read what `save_state` wrote; a damaged file is an `UnusableState` that names it."""
    path = check_path("path", path)
    if not path.exists():
        raise UnusableState(f"no saved state at {path}")
    check_regular(path)
    try:
        with safe_open(path, framework="pt") as opened:
            text = opened.metadata()["state"]
        state, tensors = json.loads(text), load_file(path)
        facts, digest = state["facts"], state[DIGEST]
        if state.get("version") != STATE_VERSION:
            raise ValueError("another version of equipoise wrote it")
        if _digest_state(tensors, facts) != digest or json.dumps(state) != text:
            raise ValueError("its content does not fit its digest")
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, RecursionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise UnusableState(
            f"{path} is not a readable saved state ({reason}); delete it or restore a copy"
        ) from error
    return tensors, facts


def list_arrays(path: str | Path) -> list[str]:
    """The names of the arrays in an .npz file."""
    with _open_npz(check_regular(path)) as archive:
        names = archive.namelist()
    return [name.removesuffix(".npy") for name in names if name.endswith(".npy")]


def read_array(path: str | Path, name: str | None = None) -> NDArray[Any]:
    """The array of an .npy file, or the named one of an .npz file; never a pickled object.

    Its header is compared with the size of the file, and that with the memory, before anything
    is allocated.
    """
    path = check_regular(path)
    what = str(path) if name is None else f"array {name!r} of {path}"
    with contextlib.ExitStack() as stack:
        archive = None if name is None else stack.enter_context(_open_npz(path))
        try:
            if archive is None:
                return _read_npy(stack.enter_context(path.open("rb")), path.stat().st_size)
            info = archive.getinfo(f"{name}.npy")
            return _read_npy(stack.enter_context(archive.open(info)), info.file_size)
        except Exception as error:  # numpy's and zip's readers raise all kinds on damaged content
            raise ValueError(f"{what} cannot be read as an array: {error}") from error


def _read_npy(opened: IO[bytes], size: int) -> NDArray[Any]:
    check_memory("it", size)
    version = np.lib.format.read_magic(opened)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its format has the version {version}")
    read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    shape, in_columns, kind = read_header(opened)
    if kind.hasobject:
        raise ValueError("it holds Python objects, which are never unpacked")
    count = math.prod(shape)
    if count * kind.itemsize > size:
        raise ValueError(f"its header promises {shape} of {kind}, more than it holds")
    content = opened.read(count * kind.itemsize)
    flat = np.frombuffer(content, dtype=kind, count=count) if count else np.empty(0, kind)
    return flat.reshape(shape, order="F" if in_columns else "C").copy()


@contextlib.contextmanager
def _open_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # as above
        with path.open("rb") as file:
            renamed = file.read(6) == b"\x93NUMPY"
        hint = "; it is a single array, give it the ending .npy" if renamed else ""
        raise ValueError(f"{path} cannot be read as arrays: {error}{hint}") from error
    with archive:
        yield archive


class Locked(Exception):
    """Another process holds the lock; its text is what that process left in the file."""


@contextlib.contextmanager
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


@contextlib.contextmanager
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
