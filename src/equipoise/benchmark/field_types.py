"""Whether a value is of the type that a field declares, and how to say that it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np

WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def check_type(name: str, value: Any, declared: Any) -> None:
    """Raise a ValueError unless `value` fits the `declared` type; true is not a number.

    >>> check_type("steps", 2.5, int | None)
    Traceback (most recent call last):
    ValueError: steps must be a whole number or none, got 2.5
    """
    if not _fits(value, declared):
        raise ValueError(f"{name} must be {_describe(declared)}, got {value!r}")


def make_plain(value: Any) -> Any:
    """The same in the types that a JSON file gives back: lists, dictionaries, Python numbers.

    >>> make_plain({"hidden": (8, np.int64(4))})
    {'hidden': [8, 4]}
    """
    if isinstance(value, Mapping):
        return {str(key): make_plain(content) for key, content in value.items()}
    if isinstance(value, tuple | list):
        return [make_plain(content) for content in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def _fits(value: Any, declared: Any) -> bool:
    origin, parts = get_origin(declared), get_args(declared)
    if declared is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(each, parts[0]) for each in value)
    if declared in (int, float) and isinstance(value, bool):
        return False
    if declared is float:
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, origin or declared)


def _describe(declared: Any) -> str:
    origin, parts = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return " or ".join(_describe(part) for part in parts)
    if declared is NoneType:
        return "none"
    if origin is tuple:
        return f"a list, each entry {_describe(parts[0])}"
    return WORDS.get(declared, "a dictionary")
