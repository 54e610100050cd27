"""What `report` and `plot` are pointed at: the same options for both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from equipoise.report.opening import Target

TargetPath = Annotated[
    Path, typer.Argument(help="Directory of a run, or a saved balancer or its directory.")
]
Data = Annotated[
    str | None, typer.Option(help="The data, if the target does not know them: as of `balance`.")
]
Label = Annotated[str | None, typer.Option(help="The label's column in --data.")]
Environment = Annotated[str | None, typer.Option(help="The environment's column in --data.")]
Features = Annotated[
    list[str] | None, typer.Option(help="Feature columns of --data, repeatable or a,b,c.")
]
ImageSize = Annotated[int | None, typer.Option(min=1, help="Side that images are resized to.")]
DataDir = Annotated[Path | None, typer.Option(help="Where the files of a dataset by name are.")]
Cache = Annotated[
    Path | None, typer.Option(help="Where the run's balancer is; by default beside it.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the examples drawn to be shown.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps or auto.")]


def open_from_options(
    target: Path,
    *,
    data: str | None,
    label: str | None,
    environment: str | None,
    features: list[str] | None,
    image_size: int | None,
    data_dir: Path | None,
    cache: Path | None,
    device: str,
    verbose: bool,
) -> Target:
    """Open the target with what the options say of its data."""
    from equipoise.algorithms import choose_device
    from equipoise.cli.data import collect_options, open_data
    from equipoise.report.opening import open_target

    columns = [name for value in features or [] for name in value.split(",")]
    options = collect_options(image_size, None, label, environment, columns, None)
    if data is None and options:
        raise ValueError(f"{', '.join(options)} say how to read --data: name the data as well")
    dataset = None if data is None else open_data(data, data_dir, options, verbose=verbose)
    return open_target(
        target, dataset, data_dir=data_dir, cache=cache, device=choose_device(device)
    )
