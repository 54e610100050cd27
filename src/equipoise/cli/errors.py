"""What a user sees when something is wrong: a sentence, never a traceback."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, get_type_hints

import typer
from rich.console import Console
from typer.models import OptionInfo


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake ends in one sentence and exit code 2, Ctrl-C in 130; no traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ValueError, TypeError, OSError, ImportError) as error:
            if isinstance(error, TypeError) and not _is_ours(error):
                raise
            said = speak_of_options(str(error), list_options(command))
            Console(stderr=True).print(f"error: {said}", style="red", markup=False, highlight=False)
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted; the same command goes on where it stopped")
            raise typer.Exit(130) from None

    return guarded


def _is_ours(error: BaseException) -> bool:
    """Whether the package itself raised it; another TypeError is a mistake of ours to be seen."""
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
            said = speak_of_options(str(message), options)
            Console(stderr=True).print(f"note: {said}", markup=False, highlight=False)

        warnings.showwarning = tell
        yield


def list_options(command: Callable[..., Any]) -> dict[str, str]:
    """The options of a command by the names that Python has for them."""
    found: dict[str, str] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        for about in getattr(hint, "__metadata__", ()):
            if isinstance(about, OptionInfo):
                # Inside Annotated the first flag stands where a default would.
                given = (about.default, *(about.param_decls or ()))
                flags = [flag for flag in given if isinstance(flag, str)]
                flags = flags or [f"--{name.replace('_', '-')}"]
                found |= {flag.strip("-").replace("-", "_"): flags[0] for flag in flags}
                found[name] = flags[0]
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
