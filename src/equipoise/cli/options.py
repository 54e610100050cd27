"""Options that several commands share, and what they say about a user's data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from equipoise.data import EnvironmentDataset

Data = Annotated[
    str,
    typer.Argument(
        help="A folder tree ENVIRONMENT/CLASS/*.jpg, a .csv, .parquet or .npz file, or a name of "
        "`equipoise list datasets`."
    ),
]
Label = Annotated[str | None, typer.Option(help="Column or array of labels.")]
Environment = Annotated[str | None, typer.Option(help="Column or array of environments.")]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--features",
        "--column",
        help="Columns of an example, repeatable or a,b,c; all others if not set.",
    ),
]
Files = Annotated[
    str | None, typer.Option("--path", help="Column of a table that names files of images.")
]
ImageSize = Annotated[
    int | None, typer.Option(min=1, help="Side that images are resized to; 224 if not set.")
]
OnBroken = Annotated[
    str | None, typer.Option(help="Images that cannot be read: raise (if not set) or skip.")
]
DataDir = Annotated[Path | None, typer.Option(help="Where the data of a named dataset are.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")]
Seed = Annotated[int, typer.Option(min=0, help="Of every random draw.")]
Choices = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another parameter or setting, name=value; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no table.")]


def collect_options(**given: Any) -> dict[str, Any]:
    """What was given, by the names that `open_dataset` knows."""
    given["features"] = [
        name for value in given.get("features") or [] for name in value.split(",")
    ] or None
    return {name: value for name, value in given.items() if value is not None}


def check_options(data: str, data_dir: Path | None, options: dict[str, Any]) -> None:
    """Refuse options that say nothing about a named dataset: only sets of images have some."""
    from equipoise.data import check_dataset
    from equipoise.data.published import list_image_benchmarks

    if check_dataset(data, data_dir=data_dir) is not None:
        return
    of_images = {"image_size", "on_broken", "n_jobs"} if data in list_image_benchmarks() else set()
    for name in options:
        if name not in of_images:
            raise ValueError(f"{name} is no option of the dataset {data}: leave it out")


def open_data(
    data: str, data_dir: Path | None, options: dict[str, Any], *, verbose: bool
) -> EnvironmentDataset:
    """A path with all options; a named set of images with those of images; others as they are."""
    from equipoise.data import check_dataset, get_dataset
    from equipoise.data.published import list_image_benchmarks

    check_options(data, data_dir, options)
    if check_dataset(data, data_dir=data_dir) is not None or data in list_image_benchmarks():
        options = {**options, "verbose": verbose}
    return get_dataset(data, data_dir=data_dir, **options)


def print_json(content: Any) -> None:
    """Print for programs: numpy's numbers and paths as plain ones, NaN as null."""
    typer.echo(json.dumps(_plain(content), indent=2, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and value - value != 0:  # NaN and infinities
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)
