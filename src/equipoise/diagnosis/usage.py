"""Who is used how often: reuse, effective sample size, and how far matches are."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.matches import Matches
from equipoise.balance.weights import effective_sample_size

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)


def tabulate_use(matches: Matches, groups: Groups, weights: Floats) -> pd.DataFrame:
    """A row for each environment and label: examples, how many serve as a match, effective size.

    Columns: environment, label, examples, ever_matched, effective_size, largest_weight (expected
    appearances where each example is an anchor once), anchors_without (anchors of other labels
    that found no match of this one).
    """
    uses = count_uses(matches)
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


def count_uses(matches: Matches) -> Ints:
    """In how many anchors' lists every example stands [N]."""
    found = matches.indices[matches.indices >= 0]
    return np.bincount(found, minlength=len(matches)).astype(np.int64)


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
    """Quantiles of the distance between an anchor and its matches, by environment and pooled.

    Columns: environment, quantile, nearest (the closest match of each label), kept (all that a
    batch may draw). Infinite distances are at the far end of KL and stay infinite. `anchors` are
    those to look at.
    """
    every = slice(None) if len(anchors) == len(matches) else anchors
    found, far = matches.indices[every] >= 0, matches.distances[every]
    environments = groups.environments[every]
    rows = []
    for environment, name in [*enumerate(groups.environment_names), (None, POOLED)]:
        here = slice(None) if environment is None else environments == environment
        distances, there = far[here], found[here]
        nearest = _quantiles(distances[:, :, 0][there[:, :, 0]])
        kept = _quantiles(distances[there])
        rows.append(
            pd.DataFrame(
                {"environment": name, "quantile": QUANTILES, "nearest": nearest, "kept": kept}
            )
        )
    return pd.concat(rows, ignore_index=True)


def _quantiles(distances: Floats) -> Floats:
    if not distances.size:
        return np.full(len(QUANTILES), np.nan)
    return np.asarray(np.quantile(distances, QUANTILES, method="nearest"))
