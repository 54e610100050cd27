"""The algorithms by name: filled by defining a class, asked by `get_algorithm`."""

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from equipoise.checks import check_choice

if TYPE_CHECKING:
    from equipoise.algorithms.base import Algorithm

ENTRY_POINT_GROUP = "equipoise.algorithms"

_registered: dict[str, "type[Algorithm]"] = {}


def register(algorithm: "type[Algorithm]") -> None:
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


def get_algorithm(name: str) -> "type[Algorithm]":
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


def _address(algorithm: "type[Algorithm]") -> str:
    return f"{algorithm.__module__}.{algorithm.__qualname__}"
