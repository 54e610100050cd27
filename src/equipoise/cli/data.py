"""`equipoise data`: look at data, and prepare them once for every run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from equipoise.cli.options import arg, command, drop_unset, open_data, opt, print_json, say

if TYPE_CHECKING:
    from equipoise.data import EnvironmentDataset, FolderReport

MOST_COLUMNS = 10  # classes of a table that still fits a terminal

app = typer.Typer(
    help="Check data, and prepare them once for every run.",
    epilog="Example: equipoise data check photos",
    no_args_is_help=True,
)


@command
def check(
    directory: Path = arg("A folder tree ENVIRONMENT/CLASS/*.jpg."),
    dataset: str | None = opt(
        "The published set it should be: PACS, VLCS, OfficeHome, TerraIncognita or "
        "DomainNet; by default read from the directory's name."
    ),
    ignore: list[str] | None = opt("A kind of problem to ignore, such as count; repeatable."),
    output: Path | None = opt("JSON file for the full report."),
    show: int = opt("Problems of each kind to print.", 10, min=0),
    n_jobs: int | None = None,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """List what is missing, empty, misplaced, unreadable or duplicated; exit code 1 if any."""
    from equipoise.data import check_folders
    from equipoise.files import write_json

    report = check_folders(
        directory, dataset=dataset, ignore=ignore or (), n_jobs=n_jobs, verbose=not quiet
    )
    if output is not None:
        write_json(output, report.to_json())
    if as_json:
        print_json(report.to_json())
    elif not quiet:
        _print_report(report, show)
    if report.problems:
        raise typer.Exit(1)


@command
def features(
    *,
    data: str,
    backbone: str = opt("timm/NAME, FILE.py:NAME or PACKAGE.MODULE:NAME.", ...),
    output: Path = opt("Directory of the new dataset.", ...),
    reading: dict[str, Any],
    on_broken: str | None = None,
    data_dir: Path | None = None,
    batch_size: int = opt("Examples at a time.", 64, min=1),
    device: str = "cpu",
    statistics: bool = opt(
        "Write channel means and deviations of early layers to OUTPUT/statistics, for "
        "`equipoise train --balance-features`.",
        False,
    ),
    n_jobs: int | None = None,
    quiet: bool = False,
) -> None:
    """Compute a frozen backbone's features once, as a dataset for `--dataset OUTPUT`."""
    from equipoise.algorithms import choose_device
    from equipoise.data import (
        check_dataset,
        check_output,
        compute_features,
        compute_statistics,
        load_backbone,
        save_dataset,
    )

    # What is cheap to tell comes before what takes long.
    check_output(output)
    check_dataset(data, data_dir=data_dir)
    network = load_backbone(backbone)
    reading |= drop_unset({"on_broken": on_broken, "n_jobs": n_jobs})
    dataset = open_data(data, data_dir, reading, verbose=not quiet)
    how: dict[str, Any] = {"batch_size": batch_size, "verbose": not quiet}
    how["device"] = choose_device(device)
    origin = {"data": data, "backbone": backbone, "input_shape": list(dataset.input_shape)}
    if statistics:
        last, early = compute_statistics(dataset, network, **how)
        parts = {output: last, output / "statistics": early}
    else:
        parts = {output: compute_features(dataset, network, **how)}
    for place, computed in parts.items():
        saved = save_dataset(computed, place, made_from=origin)
        if not quiet:
            typer.echo(f"{place}: {_describe(saved)}")


@command
def pack(
    *,
    data: str,
    output: Path = opt("Directory of the new dataset.", ...),
    reading: dict[str, Any],
    on_broken: str | None = None,
    data_dir: Path | None = None,
    n_jobs: int | None = None,
    quiet: bool = False,
) -> None:
    """Save resized images or columns of a table as a dataset for `--dataset OUTPUT`."""
    from equipoise.data import check_output, save_dataset

    check_output(output)
    reading |= drop_unset({"on_broken": on_broken, "n_jobs": n_jobs})
    dataset = open_data(data, data_dir, reading, verbose=not quiet)
    saved = save_dataset(dataset, output, made_from={"data": data}, verbose=not quiet)
    if not quiet:
        typer.echo(f"{output}: {_describe(saved)}")


def _describe(dataset: EnvironmentDataset) -> str:
    shape = " × ".join(str(side) for side in dataset.input_shape)
    return (
        f"{len(dataset):,} examples of {shape} numbers, {dataset.n_labels} labels, environments "
        f"{', '.join(dataset.environment_names)}"
    )


def _print_report(report: FolderReport, show: int) -> None:
    console = Console()
    few = len(report.label_names) <= MOST_COLUMNS
    names = report.label_names if few else ()
    known = f", checked as {report.dataset}" if report.dataset else ""
    table = Table(title=escape(f"{report.root}{known}"))
    table.add_column("environment", no_wrap=True)
    for name in (*names, "images"):
        table.add_column(escape(name), justify="right")
    for name, row in zip(report.environment_names, report.counts, strict=True):
        table.add_row(escape(name), *(str(n) for n in (row if few else ())), f"{sum(row):,}")
    console.print(table)
    if not few:
        console.print(f"{len(report.label_names)} classes")
    kinds = dict.fromkeys(problem.kind for problem in report.problems)
    for kind in kinds:
        of_kind = [problem for problem in report.problems if problem.kind == kind]
        for problem in of_kind[:show]:
            say(f"{kind}: {problem.where} ({problem.what})")
        if len(of_kind) > show:
            console.print(f"{kind}: {len(of_kind) - show} more; --output writes them all")
    found = len(report.problems)
    console.print(
        f"{report.n_images:,} images, "
        + ("no problems" if not found else f"{found} problem{'s' if found > 1 else ''}")
    )
