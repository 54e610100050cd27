"""What a user sees when something is wrong: a sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from rich.console import Console


def plain_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """A user's mistake ends in one sentence and exit code 2, Ctrl-C in 130; no traceback."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ValueError, OSError, ImportError) as error:
            Console(stderr=True).print(
                f"error: {error}", style="red", markup=False, highlight=False
            )
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            Console(stderr=True).print("interrupted; the same command goes on where it stopped")
            raise typer.Exit(130) from None

    return guarded
