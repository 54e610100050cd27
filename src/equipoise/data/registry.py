"""Datasets by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from equipoise.choices import check_choice
from equipoise.data.environments import EnvironmentDataset

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
    """Load a dataset by name; the error for an unknown name suggests the nearest."""
    check_choice("dataset", name, _DATASETS)
    return _DATASETS[name](data_dir=data_dir, data_seed=data_seed, **settings)
