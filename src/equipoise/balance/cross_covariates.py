"""Label × covariate, before and after: the table in which a spurious dependence can be seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.covariates import KnownCovariate, code_quantiles, standardize
from equipoise.balance.groups import POOLED, Groups

Floats = NDArray[np.float64]


def cross_covariates(
    z: Floats,
    known: list[KnownCovariate],
    information: pd.DataFrame,
    groups: Groups,
    weights: Floats,
) -> pd.DataFrame:
    """Shares of a label's examples that have each value of a covariate.

    Columns: environment, covariate, label, value, before, after. Of every known covariate, or,
    where none is known, of the coordinate of z that tells most about the label, in eighths.
    """
    crossed = known or [_strongest_coordinate(z, information)]
    frames = [_cross(covariate, groups, weights) for covariate in crossed]
    return pd.concat(frames, ignore_index=True)


def _strongest_coordinate(z: Floats, information: pd.DataFrame) -> KnownCovariate:
    rows = information[
        (information["kind"] == "coordinate") & (information["environment"] == POOLED)
    ]
    place = int(np.argmax(rows["before"].to_numpy()))
    codes, cuts = code_quantiles(standardize(z)[:, place], 8)
    names = tuple(f"{low:.2f} … {high:.2f}" for low, high in pairwise(cuts))
    return KnownCovariate(f"z{place + 1}", codes, names)


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
