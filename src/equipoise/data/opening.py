"""Datasets by name, by path, or from whatever a user has in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from equipoise.checks import check_choice, check_path
from equipoise.data.dataset import EnvironmentDataset
from equipoise.data.examples import Examples
from equipoise.data.folders import ImageFolderEnvironments
from equipoise.data.saved import SavedEnvironments, is_saved
from equipoise.data.tables import read_arrays, read_manifest, read_table

KINDS = (".csv", ".parquet", ".npz")


def open_dataset(
    place: str | Path,
    /,
    *,
    path: str | None = None,
    label: str | None = None,
    environment: str | None = None,
    features: Sequence[str] | str | None = None,
    image_size: int | Sequence[int] | None = None,
    on_broken: str | None = None,
    cache: str | Path | None = None,
    n_jobs: int | None = None,
    verbose: bool | None = None,
) -> EnvironmentDataset:
    """Open a folder tree of images, a .csv, .parquet or .npz file, or a saved dataset.

    Parameters
    ----------
    place : str or Path
        `root` of `root/<environment>/<class>/*.jpg`; a table with a label, an environment and
        columns of features, or of paths of images; an .npz with `x`, `y` and `environment`; or
        what `save_dataset` wrote.
    path : str, optional
        The column of a table that names images, as paths from the table's directory.
    label, environment, features : str, optional
        Names of columns or arrays; of a table by default `label`, `environment` and all others.
    image_size, on_broken, cache, n_jobs, verbose
        Of images, see `ImageFolderEnvironments`; 224 and "raise" if not given.

    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill,hospital\\n40,yes,north\\n50,no,south\\n")
    >>> open_dataset(table, label="ill", environment="hospital")
    TableEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    where = check_path("place", place)
    if not where.exists():
        raise ValueError(f"there is no data at {where}")
    names = {"path": path, "label": label, "environment": environment}
    of_tables = {**names, "features": features}
    of_images = {"image_size": image_size, "on_broken": on_broken}
    others = {"cache": cache, "n_jobs": n_jobs, "verbose": verbose}
    decoding: dict[str, Any] = {k: v for k, v in (of_images | others).items() if v is not None}
    if where.is_dir() and not is_saved(where):
        _refuse(where, "a folder tree of images", of_tables)
        return ImageFolderEnvironments(where, **decoding)
    if where.is_dir():
        _refuse(where, "a saved dataset", {**of_tables, **of_images})
        return SavedEnvironments(where)
    suffix = check_choice("kind of data", where.suffix.lower(), KINDS, hint="or a directory")
    if path is not None and suffix != ".npz":
        _refuse(where, "a table of images", {"features": features})
        return read_manifest(where, path=path, label=label, environment=environment, **decoding)
    _refuse(where, "a file of numbers", {"path": path, **of_images})
    features = [features] if isinstance(features, str) else features
    chosen = None if features is None else list(features)
    if suffix != ".npz":
        return read_table(where, label=label, environment=environment, features=chosen)
    if chosen is not None and len(chosen) != 1:
        raise ValueError(f"examples of {where} are one array, but features names {chosen}")
    name = None if chosen is None else chosen[0]
    return read_arrays(where, label=label, environment=environment, features=name)


def _refuse(path: Path, kind: str, options: Mapping[str, object]) -> None:
    """Let no option be silently ignored."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} says nothing about {path}, which is {kind}: leave it out")


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
    """Load a dataset by name, or open the one at a path (see `open_dataset`)."""
    path = check_dataset(name, data_dir=data_dir)
    if path is not None:
        return open_dataset(path, **settings)
    return _DATASETS[name](data_dir=data_dir, data_seed=data_seed, **settings)


def check_dataset(name: str, *, data_dir: str | Path | None = None) -> Path | None:
    """The path that `name` is, or None for a known name; anything else is a ValueError."""
    if isinstance(name, str) and name in _DATASETS:
        return None
    folders = [Path()] if data_dir is None else [Path(), check_path("data_dir", data_dir)]
    given, name = check_path("dataset", name), str(name)
    found = next((folder / given for folder in folders if name and (folder / given).exists()), None)
    if found is not None:
        return found
    if "/" in name or "\\" in name or Path(name).suffix:
        raise ValueError(
            f"there is no data at {name}; expected a folder tree of images, a .csv, .parquet or "
            f".npz file, a saved dataset, or one of {', '.join(_DATASETS)}"
        )
    check_choice("dataset", name, _DATASETS, hint="or the path of your own data")
    return None


def as_environments(
    x: Any, labels: ArrayLike | None = None, environments: ArrayLike | None = None
) -> EnvironmentDataset:
    """A dataset of ours as it is; arrays, tensors, data frames and map-style datasets wrapped.

    A path is opened (see `open_dataset`); `labels` and `environments` then name its columns.

    >>> as_environments([[0.0], [1.0]], ["cat", "dog"], ["rome", "oslo"])
    Examples(2 examples of shape (1,), 2 labels, 2 environments)
    """
    if isinstance(x, EnvironmentDataset):
        return x
    if isinstance(x, str | Path):
        for column in (labels, environments):
            if column is not None and not isinstance(column, str):
                raise ValueError(
                    "with a path, labels and environments are names of its columns, got "
                    f"{type(column).__name__}; open it with open_dataset to give others"
                )
        return open_dataset(x, label=labels, environment=environments)  # type: ignore[arg-type]
    if labels is None or environments is None:
        raise ValueError("labels and environments are needed, unless x is an EnvironmentDataset")
    made = Examples(x, labels, environments)
    if not len(made):
        raise ValueError("the dataset is empty")
    return made
