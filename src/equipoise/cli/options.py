"""What the commands share: options, how data are opened, and how errors are told."""

from __future__ import annotations

import inspect
import json
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console

if TYPE_CHECKING:
    from equipoise.benchmark import ResultTable
    from equipoise.data import EnvironmentDataset


class Opt(NamedTuple):
    """An option or argument, in the place of a parameter's default."""

    help: str
    default: Any
    flag: str | None
    limits: dict[str, float]
    make: Callable[..., Any] = typer.Option


def opt(help: str, default: Any = None, *, flag: str | None = None, **limits: float) -> Any:
    """An option with its help and limits `min` and `max`; the default `...` means required."""
    return Opt(help, inspect.Parameter.empty if default is ... else default, flag, limits)


def arg(help: str) -> Any:
    """A required argument."""
    return Opt(help, inspect.Parameter.empty, None, {}, typer.Argument)


#: What means the same in every command, by the parameter's name; a command may have its own.
SHARED: dict[str, Opt] = {
    "data": arg(
        "A folder tree ENVIRONMENT/CLASS/*.jpg, a .csv, .parquet or .npz file, or a name of "
        "`equipoise list datasets`."
    ),
    "target": arg("Directory of a run, or a saved balancer or its directory."),
    "run": arg("Directory of a trained run."),
    "path": opt("Column of a table that names image files."),
    "label": opt("Column or array of labels."),
    "environment": opt("Column or array of environments."),
    "features": opt("Columns of an example, repeatable or a,b,c; all others if not set."),
    "image_size": opt("Side that images are resized to; 224 if not set.", min=1),
    "on_broken": opt("Unreadable images: raise an error (if not set) or skip."),
    "n_jobs": opt("Threads; one for each processor if not set.", min=1),
    "data_dir": opt("Directory of the named dataset's files."),
    "cache": opt("Directory of the run's balancer; by default beside the run."),
    "selection": opt("Which checkpoint; by default 'balanced' if it was kept."),
    "choices": opt("Another parameter or setting, name=value; repeatable.", flag="--set"),
    "seed": opt("Seed of every random draw.", min=0),
    "device": opt("cpu, cuda, cuda:1, mps or auto."),
    "as_json": opt("Print JSON for programs.", flag="--json"),
    "quiet": opt("Print no progress and no table."),
}
#: Options on how to read a user's data, by the names of `open_dataset`, with their types.
READING: dict[str, Any] = {
    "path": str | None,
    "label": str | None,
    "environment": str | None,
    "features": list[str] | None,
    "image_size": int | None,
}


def command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a command, its parameters described by `Opt`, or else by `SHARED`.

    A parameter `reading` becomes the options of `READING`; the function gets a dictionary of
    those that were given. A user's mistake ends in one sentence and exit code 2, Ctrl-C in 130,
    without a traceback.
    """
    parameters, options = [], dict[str, str]()
    for each in inspect.signature(function, eval_str=True).parameters.values():
        reads = each.name == "reading"
        for name, kind in (READING if reads else {each.name: each.annotation}).items():
            own = each.default if isinstance(each.default, Opt) else None
            about, default = own or SHARED[name], own.default if own else each.default
            flag = about.flag or f"--{name.replace('_', '-')}"
            if about.make is typer.Option:
                options |= {name: flag, flag.strip("-").replace("-", "_"): flag}
            # A switch that is off needs no option to turn it off.
            flags = [flag] if about.flag or default is False else []
            told = about.make(*flags, help=about.help, **about.limits)
            how = {"default": None if reads else default, "annotation": Annotated[kind, told]}
            parameters.append(inspect.Parameter(name, each.KEYWORD_ONLY, **how))

    @wraps(function)
    def guarded(**given: Any) -> Any:
        if "reading" in function.__annotations__:
            reading = {name: given.pop(name) for name in READING}
            names = [name for value in reading["features"] or [] for name in value.split(",")]
            given["reading"] = drop_unset({**reading, "features": names or None})
        try:
            return function(**given)
        except (ValueError, TypeError, OSError, ImportError) as error:
            if isinstance(error, TypeError) and not _is_ours(error):
                raise
            told = speak_of_options(str(error), options)
            say(f"error: {told}", error=True, style="red")
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            say("interrupted; give the same command again to resume", error=True)
            raise typer.Exit(130) from None

    guarded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    guarded.__annotations__ = {each.name: each.annotation for each in parameters}
    guarded.__dict__["options"] = options
    return guarded


def drop_unset(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those options that have a value."""
    return {name: value for name, value in options.items() if value is not None}


def check_options(data: str, data_dir: Path | None, options: Mapping[str, Any]) -> bool:
    """Refuse options that a named dataset does not have; return whether images may be read."""
    from equipoise.data import check_dataset, list_image_benchmarks

    if check_dataset(data, data_dir=data_dir) is not None:
        return True
    has_images = data in list_image_benchmarks()
    of_images = {"image_size", "on_broken", "n_jobs"} if has_images else set()
    for name in options:
        if name not in of_images:
            raise ValueError(f"{name} is no option of the dataset {data}: leave it out")
    return has_images


def open_data(
    data: str, data_dir: Path | None, options: dict[str, Any], *, verbose: bool
) -> EnvironmentDataset:
    """A path with all options; a named set of images with those of images; others as they are."""
    from equipoise.data import get_dataset

    if check_options(data, data_dir, options):
        options = {**options, "verbose": verbose}
    return get_dataset(data, data_dir=data_dir, **options)


def print_tables(tables: Sequence[ResultTable], *, as_json: bool) -> None:
    """Print result tables for a person or for programs."""
    if as_json:
        print_json([asdict(table) for table in tables])
        return
    for table in tables:
        Console().print(table.to_rich())


def say(text: str, *, error: bool = False, style: str | None = None) -> None:
    """Print text as it is, wrapped to the terminal."""
    Console(stderr=error).print(text, style=style, markup=False, highlight=False)


def print_json(content: Any) -> None:
    """Print for programs: numpy's numbers and paths as plain ones, NaN as null."""
    from equipoise.files import make_plain

    text = json.dumps(make_plain(content), default=str)
    plain = json.loads(text, parse_constant=lambda _: None)  # NaN and infinities
    typer.echo(json.dumps(plain, indent=2, ensure_ascii=False))


def _is_ours(error: BaseException) -> bool:
    """Whether the package itself raised it; any other TypeError is a bug and must be seen."""
    frames = traceback.extract_tb(error.__traceback__)
    return Path(frames[-1].filename).is_relative_to(Path(__file__).parents[1])


@contextmanager
def plain_notes(command: Callable[..., Any]) -> Iterator[None]:
    """Warnings for a user as notes on stderr, without the line of code that gave them."""
    options = list_options(command)
    with warnings.catch_warnings():
        show = warnings.showwarning

        def tell(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if category is not UserWarning:
                show(message, category, *place, **more)
                return
            say(f"note: {speak_of_options(str(message), options)}", error=True)

        warnings.showwarning = tell
        yield


def list_options(command: Callable[..., Any]) -> dict[str, str]:
    """The options of a command by the names that Python has for them."""
    found: dict[str, str] = command.__dict__["options"]
    return found


def speak_of_options(message: str, options: Mapping[str, str]) -> str:
    """A message that names an argument of Python, in terms of the command line.

    >>> speak_of_options("no 'label'; say which with label=…", {"label": "--label"})
    "no 'label'; say which with --label"
    >>> speak_of_options("image_size must be 1 or more", {"image_size": "--image-size"})
    '--image-size must be 1 or more'
    """

    def name_option(found: re.Match[str]) -> str:
        return options.get(found[1], found[0])

    message = re.sub(r"\b(\w+)=…", name_option, message)
    return re.sub(r"^(\w+)(?= (?:must|says|is no)\b)", name_option, message)
