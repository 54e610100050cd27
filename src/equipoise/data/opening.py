"""Whatever a user has on disk, as environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from equipoise.choices import check_choice
from equipoise.data.environments import EnvironmentDataset
from equipoise.data.image_folders import IMAGE_SIZE, ImageFolderEnvironments
from equipoise.data.saved import is_saved, load_dataset
from equipoise.data.tables import read_arrays, read_table

KINDS = (".csv", ".parquet", ".npz")


def open_dataset(
    path: str | Path,
    *,
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
    path : `root` of `root/<environment>/<class>/*.jpg`; a table with a label, an environment and
        number columns; an .npz with `x`, `y` and `environment`; or what `save_dataset` wrote
    label, environment, features : names of columns or arrays; of a table by default `label`,
        `environment` and all others
    image_size, on_broken, cache, n_jobs, verbose : of a folder tree, see
        `ImageFolderEnvironments`; 224 and "raise" if not given

    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill,hospital\\n40,yes,north\\n50,no,south\\n")
    >>> open_dataset(table, label="ill", environment="hospital")
    TableEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise ValueError(f"there is no data at {path}")
    of_tables = {"label": label, "environment": environment, "features": features}
    of_images = {"image_size": image_size, "on_broken": on_broken}
    if path.is_dir() and not is_saved(path):
        _refuse(path, "a folder tree of images", of_tables)
        return ImageFolderEnvironments(
            path,
            image_size=IMAGE_SIZE if image_size is None else image_size,
            on_broken=on_broken or "raise",
            cache=cache,
            n_jobs=n_jobs,
            verbose=verbose,
        )
    if path.is_dir():
        _refuse(path, "a saved dataset", {**of_tables, **of_images})
        return load_dataset(path)
    suffix = check_choice("kind of data", path.suffix.lower(), KINDS, hint="or a directory")
    _refuse(path, "a file of numbers", of_images)
    chosen = None if features is None else _as_list(features)
    if suffix != ".npz":
        return read_table(path, label=label, environment=environment, features=chosen)
    if chosen is not None and len(chosen) != 1:
        raise ValueError(f"examples of {path} are one array, but features names {chosen}")
    name = None if chosen is None else chosen[0]
    return read_arrays(path, label=label, environment=environment, features=name)


def _refuse(path: Path, kind: str, options: Mapping[str, object]) -> None:
    """Let no option be silently ignored."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} says nothing about {path}, which is {kind}: leave it out")


def _as_list(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
