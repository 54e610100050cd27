"""A hyperparameter: its defaults for small and large images, and what a search draws."""

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from equipoise.checks import check_choice

Draw = Callable[[np.random.Generator], Any]


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
        expected = self._describe()
        if expected and not self._allows(value):
            raise ValueError(f"{name} must be {expected}, got {value!r}")

    def _allows(self, value: Any) -> bool:
        if isinstance(self.small, str | bool):
            return isinstance(value, type(self.small))
        kind = Integral if self.integer else Real
        if not isinstance(value, kind) or isinstance(value, bool | np.bool_):
            return False
        number = float(value)
        return (
            math.isfinite(number)
            and (self.at_least is None or number >= self.at_least)
            and (self.above is None or number > self.above)
            and (self.at_most is None or number <= self.at_most)
            and (self.below is None or number < self.below)
        )

    def _describe(self) -> str:
        """In words; empty where any value will do."""
        if isinstance(self.small, bool):
            return "true or false"
        if isinstance(self.small, str):
            return "a text"
        if not isinstance(self.small, Real):
            return ""
        bounds = {
            "at least": self.at_least,
            "above": self.above,
            "at most": self.at_most,
            "below": self.below,
        }
        told = [f"{word} {bound}" for word, bound in bounds.items() if bound is not None]
        return " ".join(
            ["a whole number" if self.integer else "a number", " and ".join(told)]
        ).strip()

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


def choose_values(
    owner: str,
    space: Mapping[str, Hyperparameter],
    chosen: Mapping[str, Any],
    *,
    large_images: bool,
) -> dict[str, Any]:
    """The defaults of ``space`` with the ``chosen`` values in their place."""
    for name in chosen:
        check_choice(f"hyperparameter of {owner}", name, sorted(space))
        space[name].check(f"{name} of {owner}", chosen[name])
    return {name: h.default(large_images=large_images) for name, h in space.items()} | dict(chosen)


def draw_values(
    space: Mapping[str, Hyperparameter], seed: int, *, large_images: bool
) -> dict[str, Any]:
    """One draw of each; a value depends on the seed and its own name only."""
    return {
        name: hyperparameter.sample(
            np.random.default_rng([seed, zlib.crc32(name.encode())]), large_images=large_images
        )
        for name, hyperparameter in space.items()
    }
