"""A name that does not exist is answered with those that do."""

from __future__ import annotations

import difflib
from collections.abc import Collection


def check_name(kind: str, name: str, known: Collection[str]) -> None:
    """Refuse an unknown name: list the known ones and suggest the nearest.

    >>> check_name("metric", "L-2", ["l1", "l2"])
    Traceback (most recent call last):
        ...
    ValueError: unknown metric 'L-2': expected one of l1, l2; did you mean 'l2'?
    """
    if name in known:
        return
    spoken = str(name).lower()
    near = [word for word in known if word in spoken]
    near = near or difflib.get_close_matches(spoken, known, n=1, cutoff=0.0)
    raise ValueError(
        f"unknown {kind} {name!r}: expected one of {', '.join(known)}; did you mean {near[0]!r}?"
    )
