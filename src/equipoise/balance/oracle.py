"""Matching on a covariate that is known: what learned matching is measured against."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.balance.match_input import check_codes, check_count, check_labels
from equipoise.balance.matches import Matches


def match_covariate(
    covariate: ArrayLike,
    labels: ArrayLike,
    environments: ArrayLike,
    *,
    n_labels: int | None = None,
    k: int = 20,
    generator: np.random.Generator,
) -> Matches:
    """For every example k random others of each other label with its very covariate value.

    The same environment, distance 0. `companions` are random examples of its own label and
    covariate, for the degree of balancing of Figure 4a.

    >>> found = match_covariate([5, 5, 7], [0, 1, 1], [0, 0, 0], generator=np.random.default_rng(0))
    >>> found.indices[:, :, 0]
    array([[-1,  1],
           [ 0, -1],
           [-1, -1]])
    """
    values = np.asarray(covariate)
    n = len(values)
    if n == 0:
        raise ValueError("covariate is empty: there is nothing to match")
    check_count("k", k)
    m = n_labels or int(np.max(labels)) + 1
    label_codes = check_labels(labels, n, m)
    environment_codes = check_codes("environments", environments, n)
    _, value_codes = np.unique(values, return_inverse=True)
    indices = np.full((n, m, k), -1, dtype=np.int64)
    companions = np.empty((n, k), dtype=np.int64)
    for environment in np.unique(environment_codes):
        for value in np.unique(value_codes[environment_codes == environment]):
            here = np.flatnonzero((environment_codes == environment) & (value_codes == value))
            for label in range(m):
                cell = here[label_codes[here] == label]
                if len(cell) == 0:
                    continue
                others = here[label_codes[here] != label]
                width = min(k, len(cell))
                indices[others, label, :width] = _draw_rows(cell, len(others), width, generator)
                companions[cell] = generator.choice(cell, size=(len(cell), k))
    distances = np.where(indices >= 0, 0.0, np.inf)
    return Matches(indices, distances, "covariate", companions)


def _draw_rows(
    cell: NDArray[np.int64], n_rows: int, width: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """`width` different members of the cell for each row [n_rows, width]."""
    chosen = np.empty((n_rows, width), dtype=np.int64)
    block = max(1, 2**22 // len(cell))  # random keys of a block at a time, to bound memory
    for first in range(0, n_rows, block):
        keys = generator.random((min(block, n_rows - first), len(cell)), dtype=np.float32)
        places = np.argpartition(keys, width - 1, axis=1)[:, :width]
        chosen[first : first + block] = cell[places]
    return chosen
