"""Features that behave as what is spurious does, and that matching left uneven: what Z missed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import chi2

from equipoise.balance.groups import Groups
from equipoise.diagnosis.strength import measure_variation, tabulate_strength

Floats = NDArray[np.float64]

#: A feature is uneven from so many standard deviations between labels on, if that is also more
#: than this share of what it was.
UNEVEN, LEFT = 0.25, 0.25
MOST_FEATURES = 20  # that are looked at
SURE = 0.999  # many columns are asked, so chance must not do it more often


@dataclass(frozen=True)
class MissedFeature:
    """A column that goes with the label differently between environments and still differs.

    least, most: what it tells of the label in the environments where that is least and most;
    after: standard deviations between two labels in balanced batches.
    """

    name: str
    least: float
    most: float
    after: float


def find_missed(
    features: Mapping[str, Floats], groups: Groups, evened: pd.DataFrame, *, seed: int = 0
) -> tuple[MissedFeature, ...]:
    """The uneven columns of a table whose link with the label varies, the most uneven first.

    A label's own content goes with it alike everywhere, so a column that does not should be in Z
    and evened out. `evened` has the columns covariate, before and after (`find_evened`).

    >>> rng = np.random.default_rng(0)
    >>> labels, sites = rng.integers(2, size=(2, 6000))
    >>> agrees = rng.random(6000) < np.where(sites == 1, 0.95, 0.7)
    >>> columns = {"device": np.where(agrees, labels, 1 - labels) * 1.0}
    >>> columns["dose"] = labels + rng.normal(size=6000)  # the same everywhere
    >>> groups = Groups(labels, sites, ("no", "yes"), ("a", "b"))
    >>> left = pd.DataFrame({"covariate": ["device", "dose"], "before": 1.6, "after": [1.5, 1.0]})
    >>> [feature.name for feature in find_missed(columns, groups, left)]
    ['device']
    """
    limit = np.maximum(UNEVEN, LEFT * evened["before"])
    uneven = evened[evened["after"] > limit].sort_values("after", ascending=False, kind="stable")
    found = []
    for row in uneven.head(MOST_FEATURES).itertuples():
        column = np.asarray(features[row.covariate], dtype=np.float64)
        spread = column.std()
        if not spread:
            continue
        scaled = ((column - column.mean()) / spread)[:, None]
        strength = tabulate_strength(scaled, groups, seed=seed)
        variation = measure_variation(strength)
        if variation is not None and variation.is_seen and _is_sure(strength):
            told = strength["told"]
            found.append(MissedFeature(row.covariate, told.min(), told.max(), row.after))
    return tuple(found)


def _is_sure(strength: pd.DataFrame) -> bool:
    """Whether chance would hardly make strengths differ as much."""
    told, noise = strength["told"], float(np.square(strength["error"]).mean())
    freedom = len(strength) - 1
    return bool(freedom * told.var(ddof=1) > chi2.ppf(SURE, freedom) * noise)
