"""A dataset saved as a directory that every command and call takes for one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.dataset import EnvironmentDataset
from equipoise.files import remove_parts, write_json, write_whole
from equipoise.progress import track

FORMAT, VERSION = "equipoise dataset", 1
BLOCK = 1024


class SavedEnvironments(EnvironmentDataset):
    """Examples in a memory-mapped file, as `save_dataset` wrote them.

    `paths` names each example, `made_from` says where they came from.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        facts = _read_facts(self.path)
        self.label_names = tuple(facts["label_names"])
        self.environment_names = tuple(facts["environment_names"])
        self.input_shape = tuple(facts["input_shape"])
        if facts.get("feature_names") is not None:  # of a table; earlier versions kept none
            self.feature_names = tuple(facts["feature_names"])
        self.made_from: Mapping[str, Any] = facts["made_from"]
        table = _read_examples(self.path)
        self.paths = tuple(table["example"])
        self.labels = _find(self.path, table["label"], self.label_names)
        self.environments = _find(self.path, table["environment"], self.environment_names)
        if "covariate" in table:
            self.covariate = table["covariate"].to_numpy(dtype=np.int64)
            self.covariate_name = facts["covariate_name"]
        self._x: NDArray[Any] | None = None
        rows = self._map().shape
        if rows != (len(table), *self.input_shape):
            raise ValueError(
                f"{self.path} is damaged: x.npy has the shape {rows}, expected "
                f"{(len(table), *self.input_shape)}; make it again"
            )

    def _map(self) -> NDArray[Any]:
        if self._x is None:
            try:
                self._x = np.load(self.path / "x.npy", mmap_mode="r")
            except (OSError, ValueError) as error:
                raise ValueError(f"{self.path / 'x.npy'} cannot be read: {error}") from error
        return self._x

    def fetch_bytes(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Examples as they are kept."""
        return np.asarray(self._map()[indices])

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
    key = _key_of(dataset)
    if is_saved(path):
        if _read_facts(path)["key"] == key:
            return SavedEnvironments(path)
        raise ValueError(f"{path} holds another dataset: choose another output, or delete it")
    path.mkdir(parents=True, exist_ok=True)
    remove_parts(path)
    _write_examples(dataset, path)
    with write_whole(path / "x.npy") as temporary:
        _write_x(dataset, temporary, verbose=verbose)
    facts = {
        "format": FORMAT,
        "version": VERSION,
        "key": key,
        "label_names": list(dataset.label_names),
        "environment_names": list(dataset.environment_names),
        "input_shape": list(dataset.input_shape),
        "feature_names": dataset.feature_names,
        "covariate_name": dataset.covariate_name,
        "made_from": dict(made_from or {}),
    }
    write_json(path / "dataset.json", facts)  # last: without it there is no dataset
    return SavedEnvironments(path)


def is_saved(path: str | Path) -> bool:
    """Whether a directory holds a dataset that was saved to the end."""
    return (Path(path) / "dataset.json").is_file()


def check_output(path: str | Path) -> None:
    """Refuse a place where no dataset can be saved, best before there is one."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file; a dataset is saved as a directory")
    if path.is_dir() and not is_saved(path) and not _is_unfinished(path):
        raise ValueError(f"{path} is not empty and holds no dataset: choose another output")


def _is_unfinished(path: Path) -> bool:
    return all(
        file.name in ("x.npy", "examples.csv") or file.suffix == ".part" for file in path.iterdir()
    )


def _key_of(dataset: EnvironmentDataset) -> str:
    """Sixteen hexadecimal digits from names, labels, environments and what each example is."""
    digest = hashlib.sha256(
        json.dumps([dataset.label_names, dataset.environment_names, dataset.input_shape]).encode()
    )
    for column in (dataset.labels, dataset.environments):
        digest.update(np.ascontiguousarray(column).tobytes())
    for start in range(0, len(dataset), BLOCK):
        for content in dataset.identify(np.arange(start, min(start + BLOCK, len(dataset)))):
            digest.update(content)
    return digest.hexdigest()[:16]


def _write_examples(dataset: EnvironmentDataset, path: Path) -> None:
    names = dataset.paths or range(len(dataset))
    table = pd.DataFrame(
        {
            "example": [str(name) for name in names],
            "label": np.asarray(dataset.label_names, dtype=object)[dataset.labels],
            "environment": np.asarray(dataset.environment_names, dtype=object)[
                dataset.environments
            ],
        }
    )
    if dataset.covariate is not None:
        table["covariate"] = dataset.covariate
    with write_whole(path / "examples.csv") as temporary:
        table.to_csv(temporary, index=False)


def _write_x(dataset: EnvironmentDataset, path: Path, *, verbose: bool) -> None:
    fetch = getattr(dataset, "fetch_bytes", None) or (lambda rows: dataset.fetch(rows).numpy())
    shape = (len(dataset), *dataset.input_shape)
    kind = fetch(np.zeros(1, dtype=np.int64)).dtype
    whole = np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=shape)
    with track(len(dataset), "writing examples", enabled=verbose) as tracker:
        for start in range(0, len(dataset), BLOCK):
            rows = np.arange(start, min(start + BLOCK, len(dataset)))
            whole[rows] = fetch(rows)
            tracker.reach(int(rows[-1]) + 1)
    whole.flush()


def _read_facts(path: Path) -> dict[str, Any]:
    try:
        facts: dict[str, Any] = json.loads((path / "dataset.json").read_text())
        if facts["format"] != FORMAT:
            raise ValueError("it is no dataset of equipoise")
        if facts["version"] != VERSION:
            raise ValueError(f"its version is {facts['version']}, this equipoise reads {VERSION}")
        return {**facts}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be opened as a dataset: {error}") from error


def _read_examples(path: Path) -> pd.DataFrame:
    try:
        # All as text: a class may be called "NA" or "007".
        table = pd.read_csv(path / "examples.csv", dtype=str, keep_default_na=False)
        return table[[c for c in ("example", "label", "environment", "covariate") if c in table]]
    except (OSError, ValueError) as error:
        raise ValueError(f"{path / 'examples.csv'} cannot be read: {error}") from error


def _find(path: Path, values: pd.Series, names: tuple[str, ...]) -> NDArray[np.int64]:
    codes = pd.Index(names).get_indexer(values)
    if (codes < 0).any():
        unknown = values[codes < 0].iloc[0]
        raise ValueError(
            f"{path / 'examples.csv'} names {unknown!r}, which dataset.json does not know"
        )
    return np.asarray(codes, dtype=np.int64)
