"""How a message names an example: one way of counting for all of them."""

from __future__ import annotations

import numpy as np


def tell_row(index: int | np.integer) -> str:
    """Where an example stands, for people who count from 1 and for those who count from 0.

    The header of a table is not counted.

    >>> tell_row(4)
    'in row 5 (index 4)'
    """
    return f"in row {index + 1} (index {index})"
