"""What an algorithm declares: a name to find it by, and its hyperparameters with their search."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.checks import check_choice

if TYPE_CHECKING:
    from equipoise.algorithms.base import Algorithm


ENTRY_POINT_GROUP = "equipoise.algorithms"

_registered: dict[str, type[Algorithm]] = {}


def register(algorithm: type[Algorithm]) -> None:
    """Enter a class under its own name; called when the class is defined.

    A second class of the same name is refused, unless it is the same class of the same
    module defined again (a reloaded module, a notebook cell run twice).
    """
    name = algorithm.__name__
    known = _registered.get(name)
    if known is not None and _address(known) != _address(algorithm):
        raise ValueError(
            f"an algorithm named {name!r} is already registered by {_address(known)}; "
            f"{_address(algorithm)} needs another name, or abstract=True if it is only a base"
        )
    _registered[name] = algorithm


def get_algorithm(name: str) -> type[Algorithm]:
    """The algorithm class of that name.

    >>> from equipoise.algorithms import get_algorithm
    >>> get_algorithm("CORAL").__name__
    'CORAL'
    """
    if name not in _registered:
        _import_entry_points()
    if name not in _registered:
        hint = "one of another package is known once that package is imported"
        check_choice("algorithm", name, sorted(_registered), hint=hint)
    return _registered[name]


def list_algorithms() -> list[str]:
    """The names of all registered algorithms, those of installed packages included."""
    _import_entry_points()
    return sorted(_registered)


def _import_entry_points() -> None:
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        entry_point.load()


def _address(algorithm: type[Algorithm]) -> str:
    return f"{algorithm.__module__}.{algorithm.__qualname__}"


Draw = Callable[[np.random.Generator], Any]
BOUNDS = {"at_least": ge, "above": gt, "at_most": le, "below": lt}


@dataclass(frozen=True)
class Hyperparameter:
    """Defaults and search distribution of one hyperparameter.

    ``large`` and ``draw_large`` are used for large images and equal ``small`` and ``draw``
    unless given. Without a ``draw`` a search leaves the hyperparameter at its default. The
    last five say which values make sense; a number is always refused where it is none.

    >>> lr = Hyperparameter(1e-3, large=5e-5, draw=log_uniform(-4.5, -2.5))
    >>> lr.default(large_images=True)
    5e-05
    """

    small: Any
    large: Any = None
    draw: Draw | None = None
    draw_large: Draw | None = None
    integer: bool = False
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None

    def check(self, name: str, value: Any) -> None:
        """Raise a ValueError that says which values ``name`` may have, unless this is one."""
        bounds = {word: getattr(self, word) for word in BOUNDS if getattr(self, word) is not None}
        if isinstance(self.small, str | bool):
            expected = "a text" if isinstance(self.small, str) else "true or false"
            allowed = isinstance(value, type(self.small))
        elif isinstance(self.small, Real):
            told = [f"{word.replace('_', ' ')} {bound}" for word, bound in bounds.items()]
            kind = "a whole number" if self.integer else "a number"
            expected = f"{kind} {' and '.join(told)}".strip()
            allowed = (
                isinstance(value, Integral if self.integer else Real)
                and not isinstance(value, bool | np.bool_)
                and math.isfinite(value)
                and all(BOUNDS[word](float(value), bound) for word, bound in bounds.items())
            )
        else:  # any value will do
            return
        if not allowed:
            raise ValueError(f"{name} must be {expected}, got {value!r}")

    def default(self, *, large_images: bool = False) -> Any:
        """The value used where nobody chose one."""
        return self.large if large_images and self.large is not None else self.small

    def sample(self, rng: np.random.Generator, *, large_images: bool = False) -> Any:
        """One draw of a random search."""
        draw = (self.draw_large or self.draw) if large_images else self.draw
        return self.default(large_images=large_images) if draw is None else draw(rng)


def uniform(low: float, high: float, *, integer: bool = False) -> Draw:
    """U(low, high), rounded down where ``integer``."""
    kind = int if integer else float
    return lambda rng: kind(rng.uniform(low, high))


def log_uniform(low: float, high: float, *, base: float = 10.0, integer: bool = False) -> Draw:
    """base ** U(low, high), rounded down where ``integer``."""
    kind = int if integer else float
    return lambda rng: kind(base ** rng.uniform(low, high))


def choice(*values: Any) -> Draw:
    """One of ``values``, each as likely."""
    return lambda rng: values[int(rng.integers(len(values)))]
