"""How much labels and a covariate have to do with each other, in a dataset or in batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.balance.matches import Matches


def cross_table(
    rows: ArrayLike, columns: ArrayLike, shape: tuple[int, int] | None = None
) -> NDArray[np.int64]:
    """Counts of every (row, column) pair of codes.

    >>> cross_table([0, 0, 1], [1, 1, 0])
    array([[0, 2],
           [1, 0]])
    """
    row_codes, column_codes = np.asarray(rows), np.asarray(columns)
    n_rows, n_columns = shape or (int(row_codes.max()) + 1, int(column_codes.max()) + 1)
    flat = np.bincount(row_codes * n_columns + column_codes, minlength=n_rows * n_columns)
    return flat.reshape(n_rows, n_columns).astype(np.int64)


def mutual_information(table: ArrayLike) -> float:
    """Mutual information, in nats, of the two variables of a table of counts or weights.

    >>> mutual_information([[5, 5], [5, 5]])
    0.0
    """
    joint = np.asarray(table, dtype=np.float64)
    joint = joint / joint.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float(max(0.0, (joint[seen] * np.log(joint[seen] / apart[seen])).sum()))


def same_covariate_rate(matches: Matches, covariate: ArrayLike) -> float:
    """The share of drawn matches that have their anchor's true covariate value.

    A batch draws one of the near matches of an anchor and label, so each such pair counts once.
    """
    values = np.asarray(covariate)
    found = matches.indices >= 0
    same = found & (values[matches.indices] == values[:, None, None])
    n_found = found.sum(axis=2)
    return float((same.sum(axis=2)[n_found > 0] / n_found[n_found > 0]).mean())


def standardized_differences(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    environments: NDArray[np.int64],
    weights: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """|Difference of label means| / SD of every feature, for all label pairs of every environment.

    The denominator is the unweighted SD in the environment, before and after weighting alike. A
    label without weight in an environment has no pairs there.
    Gives [environments × label pairs, features].
    """
    weights = np.ones(len(labels)) if weights is None else weights
    rows = []
    for environment in np.unique(environments):
        here = np.flatnonzero(environments == environment)
        x, w = features[here], weights[here]
        scale = np.maximum(x.std(axis=0), 1e-12)
        present = np.unique(labels[here][w > 0])  # trimming may leave nothing of a label
        member = labels[here] == present[:, None]  # [labels, N]
        means = (member * w) @ x / (member @ w)[:, None]
        first, second = np.triu_indices(len(present), k=1)
        rows.append(np.abs(means[first] - means[second]) / scale)
    return np.concatenate(rows)
