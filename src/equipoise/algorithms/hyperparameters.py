"""A hyperparameter: its defaults for small and large images, and what a search draws."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from operator import ge, gt, le, lt
from typing import Any

import numpy as np

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

    def draw(rng: np.random.Generator) -> float:
        value = float(rng.uniform(low, high))
        return int(value) if integer else value

    return draw


def log_uniform(low: float, high: float, *, base: float = 10.0, integer: bool = False) -> Draw:
    """base ** U(low, high), rounded down where ``integer``."""

    def draw(rng: np.random.Generator) -> float:
        value = float(base ** rng.uniform(low, high))
        return int(value) if integer else value

    return draw


def choice(*values: Any) -> Draw:
    """One of ``values``, each as likely."""
    return lambda rng: values[int(rng.integers(len(values)))]
