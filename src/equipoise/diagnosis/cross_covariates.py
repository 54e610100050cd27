"""Label × covariate, before and after: the table in which a spurious dependence can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import POOLED, Groups
from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.covariates import (
    KnownCovariate,
    code_quantiles,
    standardize,
)

Floats = NDArray[np.float64]


def cross_covariates(
    covariates: list[KnownCovariate], groups: Groups, weights: Floats
) -> pd.DataFrame:
    """Shares of a label's examples that have each value of a covariate.

    Columns: environment, covariate, label, value, before, after.

    >>> groups = Groups(np.array([0, 0, 1]), np.zeros(3, dtype=int), ("ant", "bee"), ("rome",))
    >>> from equipoise.diagnosis.covariates import read_known
    >>> (colour,) = read_known({"colour": ["red", "blue", "red"]}, 3)
    >>> cross_covariates([colour], groups, np.array([1.0, 3.0, 1.0])).head(2)
      environment covariate label value  before  after
    0        rome    colour   ant  blue     0.5   0.75
    1        rome    colour   ant   red     0.5   0.25
    """
    frames = [_cross(covariate, groups, weights) for covariate in covariates]
    return pd.concat(frames, ignore_index=True)


def choose_crossed(
    z: Floats, features: Mapping[str, Floats], worst: pd.DataFrame, information: pd.DataFrame
) -> list[KnownCovariate]:
    """What to show where no covariate is known, in eighths of its values.

    The feature that balancing evens out most, if it was uneven; else the coordinate of z that
    tells most about the label.
    """
    evened = worst[(worst["kind"] == "feature") & (worst["environment"] == POOLED)]
    drop = (evened["mean_smd_before"] - evened["mean_smd_after"]).to_numpy()
    if len(drop) and drop.max() > THRESHOLD:
        name = str(evened["covariate"].iloc[int(np.argmax(drop))])
        return [_cut(name, features[name])]
    told = information[information["kind"] == "coordinate"]
    told = told[told["environment"] == POOLED]["before"].to_numpy()
    place = int(np.argmax(told))
    return [_cut(f"z{place + 1}", standardize(z)[:, place])]


def _cut(name: str, values: Floats) -> KnownCovariate:
    points = np.unique(values)
    if len(points) <= 8:
        codes = np.searchsorted(points, values).astype(np.int64)
        return KnownCovariate(name, codes, tuple(f"{point:g}" for point in points))
    codes, cuts = code_quantiles(values, 8)
    return KnownCovariate(name, codes, tuple(f"{a:.2f} … {b:.2f}" for a, b in pairwise(cuts)))


def _cross(covariate: KnownCovariate, groups: Groups, weights: Floats) -> pd.DataFrame:
    n_values = len(covariate.names)
    shares = []
    for mass in (np.ones(len(groups)), weights):
        counts = np.stack(
            [groups.total(mass * (covariate.codes == code)) for code in range(n_values)], axis=-1
        )  # [E + 1, m, values]
        with np.errstate(invalid="ignore"):
            shares.append(counts / counts.sum(axis=-1, keepdims=True))
    index = pd.MultiIndex.from_product(
        [groups.places, [covariate.name], groups.label_names, covariate.names],
        names=["environment", "covariate", "label", "value"],
    )
    table = pd.DataFrame({"before": shares[0].ravel(), "after": shares[1].ravel()}, index=index)
    return table.dropna().reset_index()
