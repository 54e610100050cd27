"""A dataset saved as a directory that every command and call takes for one."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.dataset import EnvironmentDataset, fingerprint_data
from equipoise.files import (
    DamagedFile,
    check_regular,
    own_directory,
    read_json,
    remove_parts,
    write_json,
    write_whole,
)
from equipoise.progress import track

FORMAT, VERSION = "equipoise dataset", 2
BLOCK = 1024  # rows that are written, and checked, at a time
SCHEMA = {
    "format": str,
    "version": int,
    "key": str,
    "label_names": [str],
    "environment_names": [str],
    "input_shape": [int],
    "feature_names": list | None,
    "role_names?": list | None,
    "covariate_name": str,
    "made_from": dict,
    "examples": int,  # checksum of examples.csv
    "header": int,  # checksums of x.npy, and of every 1,024 rows in it
    "blocks": [int],
}


class SavedEnvironments(EnvironmentDataset):
    """Examples in a memory-mapped file, as `save_dataset` wrote them.

    `paths` names each example, `made_from` says where they came from. Rows are checked against
    their checksums when they are first read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        facts = _read_facts(self.path)
        self.label_names = tuple(facts["label_names"])
        self.environment_names = tuple(facts["environment_names"])
        self.input_shape = tuple(facts["input_shape"])
        if facts["feature_names"] is not None:
            self.feature_names = tuple(map(str, facts["feature_names"]))
        if facts.get("role_names") is not None:
            self.role_names = tuple(map(str, facts["role_names"]))
        self.made_from: Mapping[str, Any] = facts["made_from"]
        table = _read_examples(self.path, facts["examples"])
        self.paths = tuple(table["example"])
        self.labels = pd.Index(self.label_names).get_indexer(table["label"]).astype(np.int64)
        sites = pd.Index(self.environment_names).get_indexer(table["environment"])
        self.environments = sites.astype(np.int64)
        if "covariate" in table:
            self.covariate = table["covariate"].to_numpy(dtype=np.int64)
            self.covariate_name = facts["covariate_name"]
        self._x: NDArray[Any] | None = None
        self._header, self._sums = facts["header"], facts["blocks"]
        self._is_checked = np.zeros(len(self._sums), dtype=bool)
        self._map()  # a damaged file is told at once

    def _map(self) -> NDArray[Any]:
        if self._x is None:
            file = check_regular(self.path / "x.npy")
            try:
                self._x = np.load(file, mmap_mode="r", allow_pickle=False)
            except Exception as error:  # numpy's reader raises all kinds on damaged content
                raise _damaged(self.path, f"x.npy cannot be read: {error}") from error
            offset = getattr(self._x, "offset", 0)
            with file.open("rb") as opened:
                if not offset or zlib.crc32(opened.read(offset)) != self._header:
                    raise _damaged(self.path, "x.npy does not fit its checksum")
        return self._x

    def fetch_bytes(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Examples as they are kept."""
        x = self._map()
        touched = np.unique(np.arange(len(x))[indices] // BLOCK)
        for block in touched[~self._is_checked[touched]]:
            rows = x[block * BLOCK : (block + 1) * BLOCK]
            if zlib.crc32(rows.data) != self._sums[block]:
                first = f"rows {block * BLOCK} to {block * BLOCK + len(rows) - 1}"
                raise _damaged(self.path, f"{first} of x.npy do not fit their checksum")
            self._is_checked[block] = True
        return np.asarray(x[indices])

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        rows = torch.from_numpy(self.fetch_bytes(indices))
        return rows.float().div_(255.0) if rows.dtype == torch.uint8 else rows.float()

    def identify(self, indices: NDArray[np.int64]) -> list[bytes]:
        return [row.tobytes() for row in self.fetch_bytes(indices)]

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapping: a worker process opens the file itself."""
        return {**self.__dict__, "_x": None}


def save_dataset(
    dataset: EnvironmentDataset,
    path: str | Path,
    *,
    made_from: Mapping[str, Any] | None = None,
    verbose: bool = False,
) -> SavedEnvironments:
    """Write a dataset as a directory: examples, labels, environments, and where they are from.

    The same dataset again is left as it stands; another one in that directory is refused.

    >>> import tempfile
    >>> from equipoise.data import Examples
    >>> data = Examples([[0.1], [0.2]], ["cat", "dog"], ["rome", "oslo"])
    >>> save_dataset(data, Path(tempfile.mkdtemp()) / "pets")
    SavedEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    path = Path(path)
    check_output(path)
    key = fingerprint_data(dataset)
    with own_directory(path):
        if is_saved(path):
            if _read_facts(path)["key"] == key:
                return SavedEnvironments(path)
            raise ValueError(f"{path} holds another dataset: choose another output, or delete it")
        remove_parts(path)
        examples = _write_examples(dataset, path)
        header, *blocks = _write_x(dataset, path / "x.npy", verbose=verbose)
        facts = {
            "format": FORMAT,
            "version": VERSION,
            "key": key,
            "label_names": list(dataset.label_names),
            "environment_names": list(dataset.environment_names),
            "input_shape": list(dataset.input_shape),
            "feature_names": dataset.feature_names,
            "role_names": dataset.role_names,
            "covariate_name": dataset.covariate_name,
            "made_from": dict(made_from or {}),
            "examples": examples,
            "header": header,
            "blocks": blocks,
        }
        write_json(path / "dataset.json", facts)  # last: without it there is no dataset
        return SavedEnvironments(path)


def is_saved(path: str | Path) -> bool:
    """Whether a directory holds a dataset that was saved to the end."""
    return (Path(path) / "dataset.json").exists()


def check_output(path: str | Path) -> None:
    """Refuse a place where no dataset can be saved, best before there is one."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a dataset is saved as a directory")
    ours = ("x.npy", "examples.csv", ".lock")  # of a dataset that is not finished
    if not path.is_dir() or is_saved(path):
        return
    if any(file.name not in ours and file.suffix != ".part" for file in path.iterdir()):
        raise ValueError(f"{path} is not empty and holds no dataset: choose another output")


def _damaged(path: Path, what: str) -> DamagedFile:
    return DamagedFile(f"{path} is damaged: {what}; make it again with `equipoise data pack`")


def _write_examples(dataset: EnvironmentDataset, path: Path) -> int:
    """Write examples.csv and give its checksum."""
    label_names = np.asarray(dataset.label_names, dtype=object)
    site_names = np.asarray(dataset.environment_names, dtype=object)
    table = pd.DataFrame(
        {
            "example": [str(name) for name in dataset.paths or range(len(dataset))],
            "label": label_names[dataset.labels],
            "environment": site_names[dataset.environments],
        }
    )
    if dataset.covariate is not None:
        table["covariate"] = dataset.covariate
    content = table.to_csv(index=False, lineterminator="\n").encode("utf-8", "surrogateescape")
    with write_whole(path / "examples.csv") as temporary:
        temporary.write_bytes(content)
    return zlib.crc32(content)


def _write_x(dataset: EnvironmentDataset, path: Path, *, verbose: bool) -> list[int]:
    """Write x.npy block by block and give the checksums of its header and of each block.

    Not through a memory map: on a full disk that ends the process, not the write.
    """
    fetch = getattr(dataset, "fetch_bytes", None) or (lambda rows: dataset.fetch(rows).numpy())
    kind = fetch(np.zeros(1, dtype=np.int64)).dtype
    header = {
        "descr": np.lib.format.dtype_to_descr(kind),
        "fortran_order": False,
        "shape": (len(dataset), *dataset.input_shape),
    }
    sums = []
    with (
        write_whole(path) as temporary,
        temporary.open("wb") as file,
        track(len(dataset), "writing examples", enabled=verbose) as tracker,
    ):
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        sums.append(zlib.crc32(temporary.read_bytes()))
        for start in range(0, len(dataset), BLOCK):
            rows = np.arange(len(dataset))[start : start + BLOCK]
            content = np.ascontiguousarray(fetch(rows), dtype=kind).data
            file.write(content)
            sums.append(zlib.crc32(content))
            tracker.reach(int(rows[-1]) + 1)
    return sums


def _read_facts(path: Path) -> dict[str, Any]:
    file = path / "dataset.json"
    about = read_json(file, stamped=False, hint="make it again with `equipoise data pack`")
    found = about.get("format") if isinstance(about, dict) else None
    if found != FORMAT:
        raise ValueError(f"{path} cannot be opened as a dataset: it is no dataset of equipoise")
    if about.get("version") != VERSION:
        raise ValueError(
            f"{path} cannot be opened as a dataset: its version is {about.get('version')}, this "
            f"equipoise reads {VERSION}; make it again with `equipoise data pack`"
        )
    facts: dict[str, Any] = read_json(file, SCHEMA, hint="make it again with `equipoise data pack`")
    return facts


def _read_examples(path: Path, checksum: int) -> pd.DataFrame:
    file = check_regular(path / "examples.csv")
    try:
        if zlib.crc32(file.read_bytes()) != checksum:
            raise _damaged(path, "examples.csv does not fit its checksum")
        # All as text: a class may be called "NA" or "007".
        return pd.read_csv(
            file, dtype=str, keep_default_na=False, encoding_errors="surrogateescape"
        )
    except DamagedFile:
        raise
    except (OSError, ValueError) as error:
        raise _damaged(path, f"examples.csv cannot be read: {error}") from error
