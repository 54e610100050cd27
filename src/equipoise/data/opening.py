"""Whatever a user has on disk, as environments."""

from __future__ import annotations

from collections.abc import Sequence
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
    image_size: int | Sequence[int] = IMAGE_SIZE,
    on_broken: str = "raise",
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
    image_size, on_broken, cache, n_jobs, verbose : of images, see `ImageFolderEnvironments`

    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = table.write_text("age,ill,hospital\\n40,yes,north\\n50,no,south\\n")
    >>> open_dataset(table, label="ill", environment="hospital")
    TableEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise ValueError(f"there is no data at {path}")
    columns = [None if features is None else _as_list(features), label, environment]
    if path.is_dir():
        if any(name is not None for name in columns):
            raise ValueError(
                f"label, environment and features name columns of a table, but {path} is a "
                "directory: its labels and environments are fixed"
            )
        if is_saved(path):
            return load_dataset(path)
        return ImageFolderEnvironments(
            path,
            image_size=image_size,
            on_broken=on_broken,
            cache=cache,
            n_jobs=n_jobs,
            verbose=verbose,
        )
    check_choice("kind of data", path.suffix.lower(), KINDS, hint="or a directory")
    if path.suffix.lower() != ".npz":
        chosen = None if features is None else _as_list(features)
        return read_table(path, label=label, environment=environment, features=chosen)
    chosen = _as_list(features or [])
    if len(chosen) > 1:
        raise ValueError(f"examples of {path} are one array, but features names {chosen}")
    return read_arrays(
        path, label=label, environment=environment, features=chosen[0] if chosen else None
    )


def _as_list(names: Sequence[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
