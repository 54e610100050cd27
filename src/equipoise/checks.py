"""One check for every kind of parameter: each error names it, the value seen, what was expected.

A wrong type is a TypeError, a wrong value a ValueError.
"""

from __future__ import annotations

import difflib
import math
import numbers
import os
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

INF = math.inf
#: The most of anything that is counted: examples, steps, neighbours.
MOST = 10**9
#: Seeds that torch, numpy and Python all take.
MOST_SEED = 2**32 - 1
#: Threads or processes side by side.
MOST_JOBS = 1024


def check_choice(kind: str, value: str, allowed: Iterable[str], *, hint: str = "") -> str:
    """Return `value` if it is allowed, else raise a ValueError that suggests the nearest name.

    `hint` is what else a user may do, after the list of known names.

    >>> check_choice("metric", "l2", ["l1", "l2"])
    'l2'
    """
    names = [str(name) for name in allowed]
    if isinstance(value, str) and value in names:
        return value
    lowered = {name.lower(): name for name in names}
    spoken = value.lower()[:200] if isinstance(value, str) else show(value)
    near = difflib.get_close_matches(spoken, lowered, n=1, cutoff=0.5)
    near = near or [name for name in lowered if name in spoken]
    guess = f" Did you mean {lowered[near[0]]!r}?" if near else ""
    known = ", ".join(names) + (f"; {hint}" if hint else "")
    raise ValueError(f"unknown {kind} {show(value)}.{guess} Known: {known}")


def check_count(name: str, value: Any, *, least: int = 1, most: int = MOST) -> int:
    """A whole number within bounds, as an int; True and 2.0 are none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} must be a whole number, got {show(value)}")
    count = int(value)
    if not least <= count <= most:
        bounds = f"at least {least:,}" if count < least else f"at most {most:,}"
        raise ValueError(f"{name} must be {bounds}, got {show(value)}")
    return count


def check_number(
    name: str, value: Any, *, least: float = -INF, most: float = INF, above: float = -INF
) -> float:
    """A finite number with `least` ≤ value ≤ `most`, and larger than `above`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} must be a number, got {show(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = INF
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {show(value)}")
    if not number > above:
        raise ValueError(f"{name} must be above {above:g}, got {show(value)}")
    if not least <= number <= most:
        bounds = f"at least {least:g}" if number < least else f"at most {most:g}"
        raise ValueError(f"{name} must be {bounds}, got {show(value)}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """True or False, numpy's as well."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {show(value)}")


def check_seed(name: str, value: Any) -> int:
    """A seed of random draws: 0 … 2³² − 1."""
    return check_count(name, value, least=0, most=MOST_SEED)


def check_text(name: str, value: Any) -> str:
    """Text that is not empty."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {show(value)}")
    if not value:
        raise ValueError(f"{name} must not be empty")
    return value


def check_path(name: str, value: Any) -> Path:
    """A path that the system can look for, with `~` as the user's home."""
    if not isinstance(value, str | os.PathLike) or isinstance(value, bytes):
        raise TypeError(f"{name} must be a path, got {show(value)}")
    try:
        text = os.fspath(value)
        os.fsencode(text)
        path = Path(text).expanduser()
    except (ValueError, TypeError, RuntimeError) as error:
        raise ValueError(f"{name} must be a path, got {show(value)} ({error})") from error
    if "\0" in str(path) or any(len(os.fsencode(part)) > 255 for part in path.parts):
        raise ValueError(f"{name} must be a path that the system allows, got {show(value)}")
    return path


def check_jobs(name: str, value: Any) -> int:
    """How many threads or processes: 1 or more, or -1 for one on each processor."""
    count = check_count(name, value, least=-1, most=MOST_JOBS)
    if count == 0:
        raise ValueError(f"{name} must be at least 1, or -1 for every processor, got 0")
    return count


def check_type(name: str, value: Any, kind: type | tuple[type, ...]) -> Any:
    """An instance of `kind`, such as a `torch.Generator`."""
    if isinstance(value, kind):
        return value
    expected = []
    for each in kind if isinstance(kind, tuple) else (kind,):
        module = "" if each.__module__ == "builtins" else f"{each.__module__.split('.')[0]}."
        expected.append("None" if each is type(None) else f"a {module}{each.__qualname__}")
    raise TypeError(f"{name} must be {' or '.join(expected)}, got {show(value)}")


def check_array(name: str, value: Any) -> Any:
    """Whatever holds values as a numpy array: a list, a column, a tensor with or without gradient.

    >>> check_array("labels", [1, 2]).tolist()
    [1, 2]
    """
    import numpy as np

    if getattr(value, "is_sparse", False):
        value = value.to_dense()
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.asarray(value)
    except Exception as error:  # an array interface of somebody else may raise anything
        raise ValueError(
            f"{name} must be an array of values, got {show(value)} ({show(error)})"
        ) from error


def check_device(name: str, value: Any) -> Any:
    """A `torch.device` that this machine has."""
    import torch  # slow, and most callers have it anyway

    if not isinstance(value, str | torch.device):
        raise TypeError(f"{name} must be the name of a device such as 'cpu', got {show(value)}")
    try:
        device = torch.device(value)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError, NotImplementedError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"{name} must be a device of this machine such as 'cpu' or 'cuda:0', got "
            f"{show(value)} ({reason})"
        ) from error
    return device


def require(module: str, *, extra: str) -> Any:
    """Import what only an extra of the package installs, or say which extra that is."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] != module.split(".")[0]:
            raise  # it is there, and something of its own is missing
        raise ImportError(
            f"this needs {error.name}, which is not installed: pip install 'equipoise[{extra}]'"
        ) from error


def check_memory(what: str, n_bytes: float, *, hint: str = "") -> None:
    """Refuse what would take more than 80 % of the memory that is free now.

    `what` begins the sentence, `hint` says what to do about it.
    """
    free = measure_free_memory()
    if n_bytes > 0.8 * free:
        hint = f": {hint}" if hint else ""
        raise ValueError(
            f"{what} would take about {n_bytes / 1e9:,.1f} GB of memory, where "
            f"{free / 1e9:.1f} GB are free{hint}"
        )


def measure_free_memory() -> float:
    """Bytes that this process may still take, as far as the system tells."""
    free = math.inf
    try:
        with open("/proc/meminfo") as file:
            facts = dict(line.split(":", 1) for line in file)
        free = int(facts["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2
    try:
        import resource  # not there on Windows

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            with open("/proc/self/statm") as file:
                taken = int(file.read().split()[0]) * resource.getpagesize()
            free = min(free, limit - taken)
    except (ImportError, OSError, ValueError):
        pass
    return max(free, 0.0)


def show(value: Any, at_most: int = 80) -> str:
    """A value in a message: short whatever it is, and never an error of its own.

    >>> show("a" * 100, at_most=10)
    "'aaaaaaa…"
    """
    try:
        # Python refuses to spell out very large integers.
        huge = isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30
        text = f"a number of {value.bit_length()} bits" if huge else repr(value)
    except Exception:  # a repr of the user's own may raise anything
        text = f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= at_most else text[: at_most - 2] + "…"
