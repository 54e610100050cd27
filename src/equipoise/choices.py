"""One error message for every name a user may misspell."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def check_choice(kind: str, value: str, allowed: Iterable[str], *, hint: str = "") -> str:
    """Return `value` if it is allowed, else raise a ValueError that suggests the nearest name.

    `hint` is what else a user may do, after the list of known names.

    >>> check_choice("metric", "l2", ["l1", "l2"])
    'l2'
    """
    names = list(allowed)
    if value in names:
        return value
    lowered = {name.lower(): name for name in names}
    spoken = str(value).lower()
    near = difflib.get_close_matches(spoken, lowered, n=1, cutoff=0.5)
    near = near or [name for name in lowered if name in spoken]
    guess = f" Did you mean {lowered[near[0]]!r}?" if near else ""
    hint = f"; {hint}" if hint else ""
    raise ValueError(f"unknown {kind} {value!r}.{guess} Known: {', '.join(names)}{hint}")
