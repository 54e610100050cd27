"""Datasets by name or by path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from equipoise.choices import check_choice
from equipoise.data.environments import EnvironmentDataset
from equipoise.data.opening import open_dataset

_DATASETS: dict[str, Callable[..., EnvironmentDataset]] = {}
Maker = TypeVar("Maker", bound=Callable[..., EnvironmentDataset])


def register_dataset(maker: Maker) -> Maker:
    """Make a dataset class (or function) known by its name; use as a decorator.

    It is called with the keywords `data_dir` and `data_seed`, and settings of its own.
    """
    _DATASETS[maker.__name__] = maker
    return maker


def list_datasets() -> dict[str, str]:
    """Every known name with the first line of its docstring."""
    return {name: (maker.__doc__ or "").strip().split("\n")[0] for name, maker in _DATASETS.items()}


def get_dataset(
    name: str, *, data_dir: str | Path | None = None, data_seed: int = 0, **settings: Any
) -> EnvironmentDataset:
    """Load a dataset by name, or open the one at a path (see `open_dataset`).

    A path may start at `data_dir`. The error for an unknown name suggests the nearest.
    """
    path = check_dataset(name, data_dir=data_dir)
    if path is not None:
        return open_dataset(path, **settings)
    return _DATASETS[name](data_dir=data_dir, data_seed=data_seed, **settings)


def check_dataset(name: str, *, data_dir: str | Path | None = None) -> Path | None:
    """The path that `name` is, or None for a known name; anything else is a ValueError."""
    if name in _DATASETS:
        return None
    folders = [Path()] if data_dir is None else [Path(), Path(data_dir).expanduser()]
    for folder in folders:
        path = folder / Path(name).expanduser()
        if name and path.exists():
            return path
    if "/" in name or "\\" in name or Path(name).suffix:
        raise ValueError(
            f"there is no data at {name}; expected a folder tree of images, a .csv, .parquet or "
            f".npz file, a saved dataset, or one of {', '.join(_DATASETS)}"
        )
    check_choice("dataset", name, _DATASETS, hint="or the path of your own data")
    return None
