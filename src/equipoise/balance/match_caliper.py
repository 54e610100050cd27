"""How far a match may be: a distance of the metric, or standard deviations of the logit."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.engines.nearest import Nearest
from equipoise.balance.match_environment import Environment


@dataclass(frozen=True)
class Caliper:
    """A limit on matches. `in_deviations` counts standard deviations of the logit.

    >>> Caliper.parse("0.2sd")
    Caliper(limit=0.2, in_deviations=True)
    """

    limit: float
    in_deviations: bool = False

    @classmethod
    def parse(cls, caliper: float | str | None) -> Caliper | None:
        if caliper is None:
            return None
        if isinstance(caliper, str):
            found = re.fullmatch(r"\s*([0-9.eE+-]+)\s*sd\s*", caliper)
            try:
                limit = float(found[1]) if found else -1.0
            except ValueError:
                limit = -1.0
        else:
            limit = float(caliper)
        if not limit >= 0:
            raise ValueError(
                f"caliper must be a distance of at least 0, or standard deviations of the logit "
                f"such as '0.2sd'; got {caliper!r}"
            )
        return cls(limit, isinstance(caliper, str))


def beyond_deviations(
    space: Environment, anchors: IntArray, nearest: Nearest, label: int, limit: float
) -> NDArray[np.bool_]:
    """Which matches of `label` are more than `limit` standard deviations away in the logit.

    The logit of an anchor of label y and a match of label y' is log p(y'|z) − log p(y|z):
    with two labels the logit of the propensity score. Its deviation is taken over the examples
    of these two labels where it is finite.
    """
    far = np.zeros(nearest.positions.shape, dtype=bool)
    own = space.labels[anchors]
    for other in np.unique(own):
        both = np.concatenate([_places(space, int(other)), _places(space, label)])
        logit = _logit(space, both, label, int(other))
        finite = logit[np.isfinite(logit)]
        deviation = finite.std(ddof=1) if len(finite) > 1 else 0.0
        rows = np.flatnonzero(own == other)
        place = np.empty(len(space.rows))
        place[both] = logit
        with np.errstate(invalid="ignore"):
            first, second = place[anchors[rows], None], place[nearest.positions[rows]]
            gaps = np.where(first == second, 0.0, np.abs(first - second))
        far[rows] = ~(gaps <= limit * deviation)
    return far


def _places(space: Environment, label: int) -> IntArray:
    part = space.slice_of(label)
    return np.arange(part.start, part.stop)


def _logit(space: Environment, places: IntArray, label: int, other: int) -> FloatArray:
    log = space.read(places).log
    with np.errstate(invalid="ignore"):
        return np.asarray(log[:, label] - log[:, other])
