"""Tables of the matching: reuse, distances, and balance by caliper and number of matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.matches import Matches
from equipoise.balance.weights import count_appearances, effective_sample_size
from equipoise.diagnosis.covariates import standardize
from equipoise.diagnosis.tables import unmatched_deviation

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: A curve looks at this many anchors at most; tables look at all.
MAX_ANCHORS = 20_000
MAX_NUMBERS = 12
SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)
QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def tabulate_use(matches: Matches, groups: Groups, weights: Floats) -> pd.DataFrame:
    """A row for each environment and label: examples, how many serve as a match, effective size.

    Columns: environment, label, examples, ever_matched, effective_size, largest_weight (expected
    appearances where each example is an anchor once), anchors_without (anchors of other labels
    that found no match of this one).
    """
    uses = np.bincount(matches.indices[matches.indices >= 0], minlength=len(matches))
    has_match = matches.indices[:, :, 0] >= 0  # [N, m]
    rows = []
    for environment, place in enumerate(groups.environment_names):
        here = groups.environments == environment
        for label, name in enumerate(groups.label_names):
            members = here & (groups.labels == label)
            if not members.any():
                continue
            others = here & (groups.labels != label)
            rows.append(
                {
                    "environment": place,
                    "label": name,
                    "examples": int(members.sum()),
                    "ever_matched": int((uses[members] > 0).sum()),
                    "effective_size": effective_sample_size(weights[members]),
                    "largest_weight": float(weights[members].max()),
                    "anchors_without": int((~has_match[others, label]).sum()),
                }
            )
    return pd.DataFrame(rows)


def tabulate_reuse(weights: Floats) -> pd.DataFrame:
    """How many examples appear how often.

    Columns: at_least, below, examples, share (of all appearances). An appearance as an
    anchor counts; below 1 are examples without a match of their own. The steps double, as reuse
    is skewed.

    >>> tabulate_reuse(np.array([1.0, 1.0, 3.0]))["examples"].tolist()
    [2, 1]
    """
    top = max(2.0, float(weights.max()))
    edges = 2.0 ** np.arange(0, int(np.floor(np.log2(top))) + 2)
    if weights.min() < 1.0:
        edges = np.concatenate([[0.0], edges])
    place = np.clip(np.searchsorted(edges, weights, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(place, minlength=len(edges) - 1)
    mass = np.bincount(place, weights, minlength=len(edges) - 1) / weights.sum()
    return pd.DataFrame(
        {"at_least": edges[:-1], "below": edges[1:], "examples": counts, "share": mass}
    )


def tabulate_distances(matches: Matches, groups: Groups, anchors: Ints) -> pd.DataFrame:
    """Quantiles of distances to the nearest match and to all kept, by environment and pooled."""
    every = slice(None) if len(anchors) == len(matches) else anchors
    found, far = matches.indices[every] >= 0, matches.distances[every]
    environments = groups.environments[every]
    rows: list[tuple[str, float, float, float]] = []
    for environment, name in [*enumerate(groups.environment_names), (None, POOLED)]:
        here = slice(None) if environment is None else environments == environment
        distances, there = far[here], found[here]
        nearest = _quantiles(distances[:, :, 0][there[:, :, 0]])
        kept = _quantiles(distances[there])
        rows += [(name, *found) for found in zip(QUANTILES, nearest, kept, strict=True)]
    return pd.DataFrame(rows, columns=["environment", "quantile", "nearest", "kept"])


def _quantiles(distances: Floats) -> Floats:
    if not distances.size:
        return np.full(len(QUANTILES), np.nan)
    return np.asarray(np.quantile(distances, QUANTILES, method="nearest"))


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
    found = part.distances[:, :, 0][part.indices[:, :, 0] >= 0]
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
                "matched": float((found <= caliper).mean()),
                **_balance(kept, matched & (closest <= caliper), anchors, z, groups, n_matches),
            }
        )
    return pd.DataFrame(rows)


def trace_numbers(matches: Matches, z: Floats, groups: Groups, *, anchors: Ints) -> pd.DataFrame:
    """What more or fewer matches would do; `remaining` is the weight of p(y|z,e) (Theorem 3.7)."""
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
    part: Matches, matched: NDArray, anchors: Ints, z: Floats, groups: Groups, n_matches: int
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
