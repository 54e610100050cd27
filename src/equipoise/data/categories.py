"""Columns of names among the features of a table: an indicator for each name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

#: A column of more names than this is rather an identifier or free text.
MAX_CATEGORIES = 50


def is_category(column: pd.Series) -> bool:
    """Whether a column holds names throughout: nothing missing, and no number among them.

    >>> is_category(pd.Series(["m", "f", "f"])), is_category(pd.Series(["1", "2", "n/a"]))
    (True, False)
    """
    if is_numeric_dtype(column.dtype) or column.isna().any():
        return False
    texts = column.astype(str)
    return bool(pd.to_numeric(texts, errors="coerce").isna().all()) and len(texts) > 0


def expand_category(
    path: Path, column: pd.Series, name: str
) -> tuple[list[str], NDArray[np.float64]]:
    """Names and values [N, c] of the indicators; of two categories, the second says it all.

    >>> expand_category(Path("a.csv"), pd.Series(["m", "f", "f"]), "sex")[0]
    ['sex = m']
    """
    codes, found = pd.factorize(column.astype(str), sort=True)
    if len(found) > MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} of {path} holds {len(found)} different names such as "
            f"{str(found[0])!r}, too many for categories: leave it out, choosing columns with "
            "features=…, or make numbers of it"
        )
    kept = range(1 if len(found) == 2 else 0, len(found))
    values = np.stack([codes == code for code in kept], axis=1).astype(np.float64)
    return [f"{name} = {found[code]}" for code in kept], values
