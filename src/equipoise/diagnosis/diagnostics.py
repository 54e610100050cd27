"""The whole diagnosis of a balance: arrays in, tidy tables and a verdict out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance.groups import Groups
from equipoise.balance.large import MatchSource
from equipoise.balance.matches import Matches
from equipoise.balance.weights import balanced_frequencies, effective_sample_size
from equipoise.diagnosis.covariates import (
    MAX_DIMENSIONS_OF_PRODUCTS,
    choose_crossed,
    cross_covariates,
    list_covariates,
    read_columns,
    read_known,
)
from equipoise.diagnosis.evidence import (
    Evidence,
    compare_links,
    count_rows_needed,
    find_leaks,
    find_markers,
)
from equipoise.diagnosis.information import MAX_EXAMPLES, tabulate_information
from equipoise.diagnosis.matching import (
    draw_anchors,
    tabulate_distances,
    tabulate_reuse,
    tabulate_use,
    trace_calipers,
    trace_numbers,
    z_differences,
)
from equipoise.diagnosis.price import Bargain, measure_bargain
from equipoise.diagnosis.tables import (
    MAX_PAIRS,
    find_worst_pairs,
    measure_overlap,
    tabulate_balance,
)
from equipoise.diagnosis.verdict import Verdict, decide_verdict
from equipoise.latent import Features, FlipTest, VaryingPart, compare_interaction

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

#: A label with less than this part of an even share of the examples is rare.
RARE = 0.1


@dataclass(frozen=True)
class BalanceDiagnostics:
    """All that is known about a balance, before and after.

    Every table is tidy: a row is one observation, names are the user's. `environment` is a name,
    or "(pooled)" for all together. Tables of matches are empty for methods without any.

    Attributes
    ----------
    groups : labels and environments of the examples, and their names
    n_matches, metric : of the matching; None and "" without
    varying : the tests for links that vary: hypothesis, test, statistic, expected, p_value,
        joint_p_value
    left : the same joint test under the balanced weights, or None
    situations : accuracy of plain and balanced training, in points, as things are, with an even
        and with a reversed link; None if not measured
    bargain : price and protection with their errors, or None
    table, worst : `tabulate_balance` and its worst pairs, `find_worst_pairs`
    information : `tabulate_information`
    overlap, histograms : `measure_overlap`
    cross : `cross_covariates` of given and known covariates, else of what `choose_crossed` chose
    use, reuse, distances : `tabulate_use`, `tabulate_reuse`, `tabulate_distances`
    by_caliper, by_n_matches : `trace_calipers`, `trace_numbers`
    verdict : the recommendation, with reasons
    weights : [N] the balanced weight of each example
    notes : what was left out or estimated from a part, and why
    """

    groups: Groups
    n_matches: int | None
    metric: str
    varying: pd.DataFrame
    left: FlipTest | None
    situations: pd.DataFrame | None
    bargain: Bargain | None
    table: pd.DataFrame
    worst: pd.DataFrame
    information: pd.DataFrame
    overlap: pd.DataFrame
    histograms: pd.DataFrame
    cross: pd.DataFrame
    use: pd.DataFrame
    reuse: pd.DataFrame
    distances: pd.DataFrame
    by_caliper: pd.DataFrame
    by_n_matches: pd.DataFrame
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
    matches: MatchSource | None,
    groups: Groups,
    *,
    weights: Floats,
    n_matches: int | None = None,
    varying: VaryingPart | None = None,
    coordinates: Floats | None = None,
    features: Features | None = None,
    columns: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | pd.DataFrame | None = None,
    known: Mapping[str, Any] | pd.DataFrame | None = None,
    x: Floats | None = None,
    seed: int = 0,
) -> BalanceDiagnostics:
    """Compare labels before and after balancing, test what is left, and measure the bargain.

    Parameters
    ----------
    z : float array [N, k]
        What was balanced, free of the label; k may be 0.
    log_scores : float array [N, m]
        log p(y | z, e), cross-fitted.
    matches : Matches or None
        None for weights without matches; tables of matches are then empty.
    groups : Groups
    weights : float array [N]
    n_matches : int, optional
        Matches of an anchor; default all other labels.
    varying : VaryingPart, optional
        The test and what it found; None if something else was balanced.
    coordinates : float array [N, k], optional
        The varying part of the examples; default z.
    features : Features, optional
        All features, for the joint test of what is left.
    columns, given, known : mapping of str to values
        Columns of a table, covariates that were balanced by name, and covariates that you know.
    x : float array [N, p], optional
        Examples as a classifier sees them; None skips price and protection.
    seed : int

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels, environments = rng.integers(2, size=400), rng.integers(2, size=400)
    >>> z = (labels + rng.normal(size=400))[:, None]
    >>> scores = np.stack([0.5 - z[:, 0], np.zeros(400)], axis=1)
    >>> scores -= np.logaddexp(*scores.T)[:, None]
    >>> weights = 1 - np.exp(scores[np.arange(400), labels])
    >>> groups = Groups(labels, environments, ("no", "yes"), ("oslo", "rome"))
    >>> found = diagnose_balance(z, scores, None, groups, weights=weights)
    >>> found.worst.query("covariate == 'z1'")[["smd_before", "smd_after"]].mean().round(1).tolist()
    [1.0, 0.2]
    """
    n, m = len(groups), groups.shape[1]
    sizes = {"z": len(z), "log_scores": len(log_scores), "weights": len(weights)}
    sizes |= {} if matches is None else {"matches": len(matches)}
    if set(sizes.values()) != {n}:
        seen = ", ".join(f"{name} has {size:,}" for name, size in sizes.items())
        raise ValueError(f"all parts must be of the same {n:,} examples as groups, but {seen}")
    if not weights.any():
        raise ValueError(
            "no example has a match of another label, so there is nothing to compare: widen the "
            "caliper or the common support, or give environments with several labels"
        )
    listed = matches if isinstance(matches, Matches) else None
    a = None if matches is None else m - 1 if n_matches is None else n_matches
    scores, columns = np.exp(log_scores), {} if columns is None else columns
    covariates = read_known(given, n, "given") + read_known(known, n)
    own_columns = read_columns(columns, n)
    notes: list[str] = []
    pairs = _choose_pairs(z, groups, weights, notes)
    if z.shape[1] > MAX_DIMENSIONS_OF_PRODUCTS:
        notes.append(f"products are of the first {MAX_DIMENSIONS_OF_PRODUCTS} coordinates of z")
    if np.bincount(groups.environments).max() > MAX_EXAMPLES:
        notes.append(f"information is of {MAX_EXAMPLES:,} examples of each environment")
    compared = list_covariates(z, scores, covariates, own_columns, groups.label_names)
    table = tabulate_balance(compared, groups, weights, pairs)
    worst = find_worst_pairs(table)
    information = tabulate_information(z, scores, covariates, groups, weights, seed=seed)
    overlap, histograms = measure_overlap(log_scores, groups, weights, *pairs)
    crossed = covariates or choose_crossed(z, own_columns, worst, information)

    y, e = groups.labels, groups.environments
    counts = groups.total(np.ones(n))  # [E + 1, m]
    coordinates = z if coordinates is None else coordinates
    found = coordinates.shape[1] > 0 and (varying is None or len(varying) > 0)
    balanced = found or given is not None
    left, same_link, bargain, curves = None, np.nan, None, None
    if features is not None and balanced:
        rng = np.random.default_rng([seed, 0x1EF7])
        left = compare_interaction(features, y, e, weights, rng=rng)
    if varying is not None and found:
        same_link = compare_links(coordinates, y, e, seed=seed)
    if x is not None and balanced:
        if varying is not None and varying.pairs and x.ndim == 2:  # not of images
            curves = coordinates[:, varying.linear.shape[1] :]
        bargain = measure_bargain(x, y, e, log_scores, weights, seed=seed, curves=curves)
    evidence = Evidence(
        varying,
        information,
        left=left,
        same_link=same_link,
        bargain=bargain,
        sources=_name_sources(varying, features, coordinates, columns),
        given=given is not None,
        leaks=find_leaks(columns, groups),
        markers=find_markers(columns, groups),
        rows=n,
        rows_needed=count_rows_needed(y, e, 1 if features is None else features.values.shape[1]),
        n_matches=a,
        n_labels=m,
        shown=curves is not None,
        alone=_choose(groups.environment_names, (counts[:-1] > 0).sum(axis=1) == 1),
        effective=effective_sample_size(weights) / n,
        rare=_choose(groups.label_names, counts[-1] < RARE * n / m),
    )
    return BalanceDiagnostics(
        groups=groups,
        n_matches=a,
        metric="" if listed is None else listed.metric,
        varying=pd.DataFrame() if varying is None else varying.table,
        left=left,
        situations=None if bargain is None else bargain.situations,
        bargain=bargain,
        table=table,
        worst=worst,
        information=information,
        overlap=overlap,
        histograms=histograms,
        cross=cross_covariates(crossed, groups, weights),
        **_tabulate_matches(listed, z, groups, a, seed, notes),
        verdict=decide_verdict(evidence),
        weights=weights,
        notes=tuple(notes),
    )


def _choose(names: tuple[str, ...], chosen: NDArray) -> tuple[str, ...]:
    return tuple(name for name, own in zip(names, chosen, strict=True) if own)


def _name_sources(
    varying: VaryingPart | None,
    features: Features | None,
    coordinates: Floats,
    columns: Mapping[str, Any],
) -> tuple[str, ...]:
    """Names of the columns that were found, or of three that go with the directions most."""
    if varying is None or features is None or not len(varying):
        return ()
    names = [str(name) for name in columns]
    if set(varying.named) <= {"square", "product"}:
        places = [features.source[j] for pair in varying.pairs for j in pair]
    elif set(varying.named) == {"feature"}:
        places = [features.source[int(np.abs(own).argmax())] for own in varying.linear.T]
    else:
        places = _resemble(features, coordinates)
    if not names or not places or max(places) >= len(names):
        return ()
    return tuple(dict.fromkeys(names[place] for place in places))


def _resemble(features: Features, coordinates: Floats) -> list[int]:
    """The three sources whose features are most correlated with any coordinate, at least 0.3."""
    both = [part - part.mean(axis=0) for part in (features.values, coordinates)]
    x, s = (part / np.maximum(np.linalg.norm(part, axis=0), 1e-12) for part in both)
    alike = np.abs(x.T @ s).max(axis=1)
    order = [int(j) for j in np.argsort(-alike, kind="stable") if alike[j] >= 0.3]
    return list(dict.fromkeys(int(features.source[j]) for j in order))[:3]


def _tabulate_matches(
    matches: Matches | None,
    z: Floats,
    groups: Groups,
    n_matches: int | None,
    seed: int,
    notes: list[str],
) -> dict[str, pd.DataFrame]:
    tables = dict.fromkeys(
        ("use", "reuse", "distances", "by_caliper", "by_n_matches"), pd.DataFrame()
    )
    if matches is None or n_matches is None:
        return tables
    anchors = draw_anchors(len(groups), seed)
    if len(anchors) < len(groups):
        notes.append(f"curves and distances are of {len(anchors):,} anchors of {len(groups):,}")
    frequencies = balanced_frequencies(matches, n_matches)
    tables["use"] = tabulate_use(matches, groups, frequencies)
    tables["reuse"] = tabulate_reuse(frequencies)
    tables["distances"] = tabulate_distances(matches, groups, anchors)
    if z.shape[1]:
        calipers = trace_calipers(matches, z, groups, n_matches=n_matches, anchors=anchors)
        tables["by_caliper"] = calipers
        tables["by_n_matches"] = trace_numbers(matches, z, groups, anchors=anchors)
    return tables


def _choose_pairs(
    z: Floats, groups: Groups, weights: Floats, notes: list[str]
) -> tuple[Ints, Ints]:
    """All label pairs, or the thousand that differ most in z, before or after."""
    first, second = groups.pairs()
    if len(first) <= MAX_PAIRS:
        return first, second
    if not z.shape[1]:
        notes.append(f"of {len(first):,} label pairs the first {MAX_PAIRS:,} are listed")
        return first[:MAX_PAIRS], second[:MAX_PAIRS]
    largest = np.maximum(
        *(
            np.nan_to_num(z_differences(z, groups, mass)).max(axis=(0, 2))
            for mass in (np.ones(len(groups)), weights)
        )
    )
    kept = np.sort(np.argsort(-largest, kind="stable")[:MAX_PAIRS])
    notes.append(
        f"of {len(first):,} label pairs the {MAX_PAIRS:,} that differ most in z are listed"
    )
    return first[kept], second[kept]
