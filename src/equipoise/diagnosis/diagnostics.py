"""The whole diagnosis of a matching: arrays in, tidy tables and a verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import Groups
from equipoise.balance.matches import Matches
from equipoise.balance.weights import balanced_frequencies
from equipoise.diagnosis.balance_curves import (
    draw_anchors,
    trace_calipers,
    trace_numbers,
    z_differences,
)
from equipoise.diagnosis.balance_table import MAX_PAIRS, find_worst_pairs, tabulate_balance
from equipoise.diagnosis.covariates import (
    MAX_DIMENSIONS_OF_PRODUCTS,
    list_covariates,
    read_known,
)
from equipoise.diagnosis.cross_covariates import choose_crossed, cross_covariates
from equipoise.diagnosis.dependence_of_z import measure_dependence
from equipoise.diagnosis.findings import find_evened
from equipoise.diagnosis.gain import Gain
from equipoise.diagnosis.information import MAX_EXAMPLES, tabulate_information
from equipoise.diagnosis.missed import find_missed
from equipoise.diagnosis.overlap import measure_overlap
from equipoise.diagnosis.strength import tabulate_strength
from equipoise.diagnosis.usage import tabulate_distances, tabulate_reuse, tabulate_use
from equipoise.diagnosis.verdict import Verdict, decide_verdict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class BalanceDiagnostics:
    """All that is known about the balance of a matching, before and after.

    Every table is tidy: a row is one observation, names are the user's. `environment` is a name,
    or "(pooled)" for all together.

    groups : labels and environments of the examples, and their names
    n_matches, metric : of the matching
    table : `tabulate_balance`: environment, kind, covariate, first, second, smd_before, smd_after,
        variance_ratio_before, variance_ratio_after, ks_before, ks_after
    worst : `find_worst_pairs`: one row for each environment and covariate
    information : `tabulate_information`: environment, variable, kind, before, after (nats)
    strength : `tabulate_strength`: what z tells in each environment, made to be compared
    overlap, histograms : `measure_overlap`
    cross : label × covariate: environment, covariate, value, label, before, after (shares of the
        label), for every known covariate, else for the feature that balancing evens out most,
        else for the coordinate of z that tells most
    use, reuse, distances : `tabulate_use`, `tabulate_reuse`, `tabulate_distances`
    by_caliper, by_n_matches : `trace_calipers`, `trace_numbers`
    gain : what a plain classifier loses without the dependence, where examples were given
    verdict : the diagnosis in words
    weights : [N] how often balanced batches show each example, an anchor's turn counting 1
    notes : what was left out or estimated from a part, and why
    """

    groups: Groups
    n_matches: int
    metric: str
    table: pd.DataFrame
    worst: pd.DataFrame
    information: pd.DataFrame
    strength: pd.DataFrame
    overlap: pd.DataFrame
    histograms: pd.DataFrame
    cross: pd.DataFrame
    use: pd.DataFrame
    reuse: pd.DataFrame
    distances: pd.DataFrame
    by_caliper: pd.DataFrame
    by_n_matches: pd.DataFrame
    gain: Gain | None
    verdict: Verdict
    weights: Floats
    notes: tuple[str, ...]

    @property
    def label_names(self) -> tuple[str, ...]:
        return self.groups.label_names

    @property
    def environment_names(self) -> tuple[str, ...]:
        return self.groups.environment_names

    @property
    def n_examples(self) -> int:
        return len(self.groups)


def diagnose_balance(
    z: Floats,
    log_scores: Floats,
    matches: Matches,
    groups: Groups,
    *,
    n_matches: int | None = None,
    known: Mapping[str, Any] | pd.DataFrame | None = None,
    features: Mapping[str, Floats] | None = None,
    gain: Gain | None = None,
    seed: int = 0,
) -> BalanceDiagnostics:
    """Compare the labels' z, scores and known covariates before and after matching.

    z [N, n] should be free of the label (`label_free_z`): a z that was encoded with its own
    label is shifted by it. `n_matches` is a, by default m − 1. `known` are covariates by name,
    `features` the columns of a table, where the examples are rows of one.

    >>> rng = np.random.default_rng(0)
    >>> labels, environments = rng.integers(2, size=400), rng.integers(2, size=400)
    >>> z = (labels + rng.normal(size=400))[:, None]
    >>> scores = np.stack([-z[:, 0] / 2, z[:, 0] / 2], axis=1)
    >>> scores -= np.logaddexp(*scores.T)[:, None]
    >>> from equipoise.balance import match_scores
    >>> matches = match_scores(scores, labels, environments, n_nearest=5)
    >>> groups = Groups(labels, environments, ("no", "yes"), ("oslo", "rome"))
    >>> found = diagnose_balance(z, scores, matches, groups)
    >>> found.worst.query("covariate == 'z1'")[["smd_before", "smd_after"]].mean().round(1).tolist()
    [1.0, 0.1]
    """
    n, m = len(groups), groups.shape[1]
    if not len(z) == len(log_scores) == len(matches) == n:
        raise ValueError(
            f"z, log_scores, matches and groups must be of the same examples, but have {len(z)}, "
            f"{len(log_scores)}, {len(matches)} and {n}"
        )
    if not matches.matched.any():
        raise ValueError(
            "no example has a match of another label, so there is nothing to compare: widen the "
            "caliper or the common support, or give environments with several labels"
        )
    a = m - 1 if n_matches is None else n_matches
    weights = balanced_frequencies(matches, a)
    scores = np.exp(log_scores)
    covariates = read_known(known, n)
    first, second, notes = _choose_pairs(z, groups, weights)
    if z.shape[1] > MAX_DIMENSIONS_OF_PRODUCTS:
        notes.append(f"products are of the first {MAX_DIMENSIONS_OF_PRODUCTS} coordinates of z")
    if np.bincount(groups.environments).max() > MAX_EXAMPLES:
        notes.append(f"what tells about the label is of {MAX_EXAMPLES:,} examples an environment")
    anchors = draw_anchors(n, seed)
    if len(anchors) < n:
        notes.append(f"curves and distances are of {len(anchors):,} anchors of {n:,}")
    columns = list_covariates(z, scores, covariates, features or {}, groups.label_names)
    table = tabulate_balance(columns, groups, weights, (first, second))
    worst = find_worst_pairs(table)
    information = tabulate_information(z, scores, covariates, groups, weights, seed=seed)
    strength = tabulate_strength(z, groups, seed=seed)
    overlap = measure_overlap(log_scores, groups, weights, first, second)
    use = tabulate_use(matches, groups, weights)
    by_caliper = trace_calipers(matches, z, groups, n_matches=a, anchors=anchors)
    by_n_matches = trace_numbers(matches, z, groups, anchors=anchors)
    evened = find_evened(worst)
    verdict = decide_verdict(
        measure_dependence(table, information, overlap.table, use, strength),
        gain,
        strength=strength,
        n_environments=groups.shape[0],
        n_labels=m,
        n_matches=a,
        latent_dim=z.shape[1],
        overlap=overlap.table,
        use=use,
        information=information,
        evened=evened,
        by_caliper=by_caliper,
        by_n_matches=by_n_matches,
        missed=find_missed(features or {}, groups, evened, seed=seed),
    )
    return BalanceDiagnostics(
        groups=groups,
        n_matches=a,
        metric=matches.metric,
        table=table,
        worst=worst,
        information=information,
        strength=strength,
        overlap=overlap.table,
        histograms=overlap.histograms,
        cross=cross_covariates(
            covariates or choose_crossed(z, features or {}, worst, information), groups, weights
        ),
        use=use,
        reuse=tabulate_reuse(weights),
        distances=tabulate_distances(matches, groups, anchors),
        by_caliper=by_caliper,
        by_n_matches=by_n_matches,
        gain=gain,
        verdict=verdict,
        weights=weights,
        notes=tuple(notes),
    )


def _choose_pairs(z: Floats, groups: Groups, weights: Floats) -> tuple[Ints, Ints, list[str]]:
    """All label pairs, or the thousand that differ most in z, before or after."""
    first, second = groups.pairs()
    if len(first) <= MAX_PAIRS:
        return first, second, []
    differences = [
        np.nanmax(np.nan_to_num(z_differences(z, groups, mass)), axis=(0, 2))
        for mass in (np.ones(len(groups)), weights)
    ]
    largest = np.sort(np.argsort(-np.maximum(*differences), kind="stable")[:MAX_PAIRS])
    note = f"of {len(first):,} label pairs the {MAX_PAIRS:,} that differ most in z are listed"
    return first[largest], second[largest], [note]
