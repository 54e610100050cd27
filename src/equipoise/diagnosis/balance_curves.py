"""Balance as a function of the caliper and of the number of matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import Groups
from equipoise.balance.matches import Matches
from equipoise.balance.weights import count_appearances, effective_sample_size
from equipoise.diagnosis.balance_table import unmatched_deviation
from equipoise.diagnosis.covariates import standardize

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A curve looks at this many anchors at most; tables look at all.
MAX_ANCHORS = 20_000
MAX_NUMBERS = 12
SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def draw_anchors(n: int, seed: int) -> Ints:
    """The anchors a curve is computed from: all, or so many at random."""
    if n <= MAX_ANCHORS:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, 0xCA1]).permutation(n)[:MAX_ANCHORS])


def trace_calipers(
    matches: Matches, z: Floats, groups: Groups, *, n_matches: int, anchors: Ints
) -> pd.DataFrame:
    """What a caliper would do, for calipers that keep 100 % … 50 % of the nearest matches.

    Columns: caliper, matched (share of an anchor's possible labels that keep a match), mean_smd
    and worst_smd of z within environments, effective_size (share of the examples). A caliper
    that costs many matches and gains no balance is not worth it; one that makes balance worse
    is a warning (King and Nielsen, 2019).
    """
    part = _of_anchors(matches, anchors)
    matched, closest = matches.matched, matches.distances[:, :, 0].min(axis=1)
    nearest = part.distances[:, :, 0]
    possible = part.indices[:, :, 0] >= 0
    found = nearest[possible]
    rows: list[dict[str, float]] = []
    for share in SHARES if found.size else ():
        caliper = float(np.quantile(found, share, method="inverted_cdf"))
        if rows and caliper == rows[-1]["caliper"]:
            continue
        far = part.distances > caliper
        kept = replace(part, indices=np.where(far, -1, part.indices))
        rows.append(
            {
                "caliper": caliper,
                "matched": float((nearest[possible] <= caliper).mean()),
                **_balance(kept, matched & (closest <= caliper), anchors, z, groups, n_matches),
            }
        )
    return pd.DataFrame(rows)


def trace_numbers(matches: Matches, z: Floats, groups: Groups, *, anchors: Ints) -> pd.DataFrame:
    """What more or fewer matches would do: a = 0 (random batches) … m − 1.

    Columns: n_matches, mean_smd and worst_smd of z within environments, effective_size (share
    of the examples), remaining: the weight of p(y|z,e) in the balanced distribution with exact
    matches, (m − 1 − a) / ((a + 1)(m − 1)) (Theorem 3.7).
    """
    part = _of_anchors(matches, anchors)
    every, m = np.ones(len(groups), dtype=bool), groups.shape[1]
    numbers = np.unique(np.linspace(0, m - 1, min(m, MAX_NUMBERS)).round().astype(int))
    return pd.DataFrame(
        [
            {
                "n_matches": int(a),
                "remaining": (m - 1 - a) / ((a + 1) * (m - 1)),
                **_balance(part, matches.matched if a else every, anchors, z, groups, int(a)),
            }
            for a in numbers
        ]
    )


def _of_anchors(matches: Matches, anchors: Ints) -> Matches:
    if len(anchors) == len(matches):
        return matches
    return replace(matches, indices=matches.indices[anchors], distances=matches.distances[anchors])


def _balance(
    part: Matches,
    matched: NDArray[np.bool_],
    anchors: Ints,
    z: Floats,
    groups: Groups,
    n_matches: int,
) -> dict[str, float]:
    # Who has a match is an anchor once; what some anchors give to theirs stands for all.
    gained = count_appearances(part, n_matches, n_examples=len(groups))
    weights = matched + gained * (len(groups) / len(anchors))
    differences = z_differences(z, groups, weights)
    return {
        "mean_smd": float(np.nanmean(differences)),
        "worst_smd": float(np.nanmax(differences)),
        "effective_size": effective_sample_size(weights) / len(groups),
    }


def z_differences(z: Floats, groups: Groups, weights: Floats) -> Floats:
    """|SMD| of every coordinate of z for every label pair within environments [E, pairs, n]."""
    first, second = groups.pairs()
    found = []
    for column in standardize(z).T:
        scale = unmatched_deviation(column, groups.moments(column, np.ones(len(groups)))[1])
        mean, _ = groups.moments(column, weights)
        found.append((np.abs(mean[:, first] - mean[:, second]) / scale[:, None])[:-1])
    return np.stack(found, axis=-1)
