"""Weights of examples: those that matching amounts to, overlap weights, entropy balancing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.encoding import Encoding, as_table, check_alignment
from equipoise.balance.large import MatchSource
from equipoise.balance.matches import Matches
from equipoise.balance.scores import (
    check_environments,
    check_labels,
    check_log_scores,
    count_labels,
    split_by,
)
from equipoise.checks import check_array, check_count, show

Moment = str | tuple[str, str]

_TOLERANCE = 1e-10  # of balanced moments, in standard deviations
_ANCHORS_AT_ONCE = 1 << 16
_LABELS_ASKED = 4  # of each anchor, where matches are made on demand


def balanced_frequencies(matches: MatchSource, n_matches: int | None = None) -> FloatArray:
    """Expected appearances [N] of every example when each is an anchor once.

    Anchors count 1, or 0 without any match, as batches leave them out. A label drawn with
    probability a / (labels that have a match) passes its share on to the k nearest, equally. By
    default a = m−1, which gives the balanced distribution.
    """
    if not hasattr(matches, "lookup"):
        raise TypeError(f"matches must come from match_scores, got {show(matches)}")
    if not isinstance(matches, Matches):
        return _estimate_frequencies(matches, n_matches)
    n, m, _ = matches.indices.shape
    gained = count_appearances(matches, m - 1 if n_matches is None else n_matches, n_examples=n)
    return gained + matches.matched


def _estimate_frequencies(matches: MatchSource, n_matches: int | None) -> FloatArray:
    """The same of matches made on demand: a few labels of each anchor stand for all."""
    generator = np.random.default_rng(0)
    weights = matches.matched.astype(np.float64)
    anchors = np.flatnonzero(weights)
    for start in range(0, len(anchors), _ANCHORS_AT_ONCE):
        some = anchors[start : start + _ANCHORS_AT_ONCE]
        has_match = matches.has_match(some)
        n_labels = has_match.sum(axis=1)
        keys = np.where(has_match, generator.random(has_match.shape), np.inf)
        asked = np.argsort(keys, axis=1)[:, :_LABELS_ASKED]
        found = matches.lookup(some, asked)  # [B, asked, k]
        near = found >= 0
        n_asked = np.minimum(asked.shape[1], n_labels)
        drawn = n_labels if n_matches is None else np.minimum(n_matches, n_labels)
        share = (drawn / np.maximum(n_asked, 1))[:, None] / np.maximum(near.sum(axis=2), 1)
        each = np.broadcast_to(share[..., None], near.shape)[near]
        weights += np.bincount(found[near], each, minlength=len(weights))
    return weights


def count_appearances(matches: Matches, n_matches: int, *, n_examples: int) -> NDArray[np.float64]:
    """Expected appearances [n_examples] as a match, when each anchor of a table is one once."""
    found = matches.indices >= 0
    n_labels = found[:, :, 0].sum(axis=1)  # labels that have a match
    drawn = np.minimum(n_matches, n_labels) / np.maximum(n_labels, 1)  # [N]
    share = drawn[:, None] / np.maximum(found.sum(axis=2), 1)  # [N, m]
    weights = np.broadcast_to(share[..., None], found.shape)[found]
    gained = np.bincount(matches.indices[found], weights=weights, minlength=n_examples)
    return np.asarray(gained, dtype=np.float64)


def effective_sample_size(weights: NDArray[np.float64]) -> float:
    """Kish's (Σw)² / Σw²: how many equally weighted examples carry as much.

    >>> effective_sample_size(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    weights = check_array("weights", weights)
    if weights.dtype.kind not in "biuf" or not np.isfinite(weights).all():
        raise ValueError(f"weights must be finite numbers, got {show(weights)}")
    weights = weights.astype(np.float64)
    total = float(weights.sum())
    return total**2 / float(np.square(weights).sum()) if total else 0.0


@dataclass(frozen=True, repr=False)
class Weights:
    """Weights of examples under which the label is independent of the covariates.

    They have mean 1, and every label of an environment has the same sum there. `notes` say what
    could not be weighted, with counts.

    >>> Weights(np.array([0.5, 0.5, 2.0]), "overlap")
    Weights(overlap, 3 examples, effective sample size 2.0, largest 2.0)
    """

    values: FloatArray
    method: str
    notes: tuple[str, ...] = ()

    @property
    def effective_sample_size(self) -> float:
        return effective_sample_size(self.values)

    @property
    def largest(self) -> float:
        return float(self.values.max())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return (
            f"Weights({self.method}, {len(self):,} examples, effective sample size "
            f"{self.effective_sample_size:,.1f}, largest {self.largest:.1f})"
        )


def overlap_weights(
    log_scores: Any, labels: Any, environments: Any = None, *, target: int | None = None
) -> Weights:
    """Generalized overlap weights of balancing scores, within each environment.

    An example of label y gets h / p(y | c, e), where 1 / h = Σ 1 / p(y' | c, e) over the labels
    of the environment (Li and Li 2019). Examples that could have any label count most.

    Parameters
    ----------
    log_scores : array-like, [N, m]
        Normalised log-probabilities.
    labels, environments : integer codes [N]
        None for a single environment.
    target : int, optional
        Weight the others to this label's distribution: p(target | c, e) / p(y | c, e).

    >>> scores = np.log([[0.8, 0.2], [0.5, 0.5], [0.8, 0.2], [0.5, 0.5]])
    >>> overlap_weights(scores, [0, 0, 1, 1]).values.round(3)
    array([0.571, 1.429, 1.231, 0.769])
    """
    scores = check_log_scores(log_scores).astype(np.float64)
    codes, where = _check(labels, environments, len(scores), scores.shape[1], target)
    raw = np.zeros(len(codes))
    notes: list[str] = []
    for _, rows, present in _environments(codes, where, target, notes):
        here = scores[np.ix_(rows, present)]
        own = here[np.arange(len(rows)), np.searchsorted(present, codes[rows])]
        with np.errstate(invalid="ignore", over="ignore"):
            # log h = −log Σ exp(−log p); a label of probability 0 leaves no overlap: weight 0.
            if target is None:
                tilt = -np.logaddexp.reduce(-here, axis=1)
            else:
                tilt = here[:, np.searchsorted(present, target)]
            value = np.exp(tilt - own)
        raw[rows] = np.where(np.isfinite(value), value, 0.0)
    return _normalise(raw, codes, where, "overlap", notes)


def entropy_weights(
    covariates: Any,
    labels: Any,
    environments: Any = None,
    *,
    moments: Sequence[Moment] = ("means", "squares"),
    target: int | None = None,
) -> Weights:
    """Weights nearest to equal that balance moments of covariates exactly (Hainmueller 2012).

    Within each environment every label's weighted moments equal those of all its examples.

    Parameters
    ----------
    covariates : DataFrame or array-like, [N, p]
        Categories are balanced by the share of each.
    labels, environments : integer codes [N]
        None for a single environment.
    moments : sequence
        "means", "squares" (of numbers) and pairs of names such as ("age", "income").
    target : int, optional
        Weight the other labels to the moments of this label, whose own weights stay equal.

    Raises
    ------
    ValueError
        When no such weights exist: it names the label, the environment and the moment.

    >>> age = np.array([30.0, 40.0, 50.0, 30.0, 50.0, 60.0])
    >>> made = entropy_weights(age, [0, 0, 0, 1, 1, 1], moments=["means"], target=0)
    >>> round(float(np.average(age[3:], weights=made.values[3:])), 6)
    40.0
    """
    codes, m = count_labels(labels)
    table = as_table(covariates)
    check_alignment(covariates, labels, len(codes))
    codes, where = _check(codes, environments, len(codes), m, target)
    encoding = Encoding.learn(table, where if environments is not None else None)
    values, names = _moments(encoding, encoding.encode(table), moments)
    notes = list(encoding.notes)
    raw = np.zeros(len(codes))
    for environment, rows, present in _environments(codes, where, target, notes):
        aimed = rows if target is None else rows[codes[rows] == target]
        goal, scale = values[aimed].mean(axis=0), values[rows].std(axis=0)
        for label in present:
            mine = rows[codes[rows] == label]
            if label == target or len(present) == 1:
                raw[mine] = 1.0
                continue
            site = "" if environments is None else f" in environment {environment}"
            place = f"label {label}{site}"
            raw[mine] = _solve_dual(values[mine], goal, scale, names, place)
            if not raw[mine].all():
                notes.append(
                    f"{int((raw[mine] == 0).sum()):,} examples of {place} have weight 0: they have "
                    "values that the target lacks"
                )
    return _normalise(raw, codes, where, "entropy", notes)


def _moments(
    encoding: Encoding, matrix: FloatArray, moments: Sequence[Moment]
) -> tuple[FloatArray, list[str]]:
    """The functions of the covariates whose means are balanced [N, q], and their names."""
    parts: list[FloatArray] = []
    names: list[str] = []
    columns = encoding.columns
    column_of = {c.name: [columns.index(name) for name in c.columns] for c in encoding.covariates}
    if isinstance(moments, str) or not isinstance(moments, Sequence):
        raise TypeError(f"moments must be a list such as ['means'], got {show(moments)}")
    for given in moments:
        pair = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2
        moment: Any = tuple(given) if pair else given
        if moment == "means":
            parts.append(matrix)
            names += [f"the mean of {column}" for column in columns]
        elif moment == "squares":
            parts.append(np.square(matrix[:, encoding.numbers]))
            names += [f"the mean square of {columns[i]}" for i in encoding.numbers]
        elif isinstance(moment, tuple) and all(str(name) in column_of for name in moment):
            for first, second in product(column_of[moment[0]], column_of[moment[1]]):
                parts.append(matrix[:, [first]] * matrix[:, [second]])
                names.append(f"the mean of {columns[first]} × {columns[second]}")
        else:
            raise ValueError(
                f"moments must be 'means', 'squares' or pairs of covariates out of "
                f"{', '.join(map(repr, encoding.names))}; got {show(moment)}"
            )
    if not names:
        raise ValueError("moments is empty: give 'means', 'squares' or pairs of covariates")
    return np.hstack(parts), names


def _solve_dual(
    values: FloatArray, goal: FloatArray, scale: FloatArray, names: list[str], place: str
) -> FloatArray:
    """Weights ∝ exp(λ·f) of sum n, whose means of `values` [n, q] are `goal` [q]."""
    gaps = (values - goal) / np.where(scale > 0, scale, 1.0)
    kept = np.arange(len(gaps))
    while True:  # A target at the edge of a moment's range leaves only the rows at that edge.
        low, high = gaps[kept].min(axis=0), gaps[kept].max(axis=0)
        outside = np.flatnonzero((low > _TOLERANCE) | (high < -_TOLERANCE))
        if len(outside):
            raise _no_solution(names, place, int(outside[np.argmax(np.abs(low[outside]))]))
        edge = (np.minimum(-low, high) <= _TOLERANCE) & (high - low > _TOLERANCE)
        inside = (np.abs(gaps[kept][:, edge]) <= _TOLERANCE).all(axis=1)
        if inside.all():
            break
        kept = kept[inside]
        if not len(kept):
            raise _no_solution(names, place, int(np.flatnonzero(edge)[0]))
    f = gaps[kept][:, high - low > _TOLERANCE]
    weights, slope = _newton(f)
    if np.abs(slope).max(initial=0.0) > 100 * _TOLERANCE:
        which = np.flatnonzero(high - low > _TOLERANCE)
        raise _no_solution(names, place, int(which[_worst_moment(f, slope)]))
    result = np.zeros(len(values))
    result[kept] = weights * len(values)
    return result


def _newton(f: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weights of sum 1, and the weighted means of f [n, q] that are left (0 when solved)."""
    multipliers = np.zeros(f.shape[1])
    value, weights = _dual(f, multipliers)
    slope = weights @ f
    for _ in range(200):
        if np.abs(slope).max(initial=0.0) <= _TOLERANCE:
            break
        curvature = (f * weights[:, None]).T @ f - np.outer(slope, slope)
        sizes, axes = np.linalg.eigh(curvature)
        useful = sizes > 1e-13 * max(sizes.max(), 1e-300)  # the rest are collinear moments
        step = -axes[:, useful] @ ((axes[:, useful].T @ slope) / sizes[useful])
        length, expected = 1.0, float(slope @ step)
        while length > 1e-10:
            new_value, new_weights = _dual(f, multipliers + length * step)
            new_slope = new_weights @ f
            # Near the solution the value no longer tells; the slope does.
            if new_value <= value + 1e-4 * length * expected or (
                abs(expected) < 1e-12 and np.abs(new_slope).max() < np.abs(slope).max()
            ):
                break
            length /= 2
        else:
            break
        multipliers = multipliers + length * step
        value, weights, slope = new_value, new_weights, new_slope
        if value < -700:  # the dual has no minimum
            break
    return weights, slope


def _dual(f: FloatArray, multipliers: FloatArray) -> tuple[float, FloatArray]:
    exponents = f @ multipliers
    largest = float(exponents.max())
    weights = np.exp(exponents - largest)
    total = float(weights.sum())
    return largest + float(np.log(total)) - float(np.log(len(f))), weights / total


def _worst_moment(f: FloatArray, slope: FloatArray) -> int:
    """The moment that weights must miss most when they miss as little as possible in all."""
    n, q = f.shape
    found = linprog(
        np.append(np.zeros(n), np.ones(2 * q)),
        A_eq=np.vstack(
            [np.hstack([f.T, np.eye(q), -np.eye(q)]), np.append(np.ones(n), np.zeros(2 * q))]
        ),
        b_eq=np.append(np.zeros(q), 1.0),
    )
    missed = np.abs(slope)
    if found.success and found.fun > 1e-9:
        missed = found.x[n : n + q] + found.x[n + q :]
    return int(np.argmax(missed))


def _no_solution(names: list[str], place: str, moment: int) -> ValueError:
    return ValueError(
        f"no weights balance {names[moment]} for {place} together with the other moments: its "
        "examples do not reach the target; drop the moment, give a target label, or trim to "
        "common support"
    )


def _check(
    labels: Any, environments: Any, n: int, m: int, target: int | None
) -> tuple[IntArray, IntArray]:
    codes = check_labels(labels, n, m)
    where = check_environments(environments, n)
    if target is not None and check_count("target", target, least=0) not in codes:
        raise ValueError(
            f"target must be a label that occurs, one of {np.unique(codes).tolist()}; got {target}"
        )
    return codes, where


def _environments(
    labels: IntArray, environments: IntArray, target: int | None, notes: list[str]
) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Code, rows and labels of each environment that has the target."""
    for rows in split_by(environments, np.arange(len(environments))):
        code, present = int(environments[rows[0]]), np.unique(labels[rows])
        if target is None or target in present:
            yield code, rows, present
        else:
            notes.append(
                f"environment {code} has no example of label {target}: its {len(rows):,} examples "
                "have weight 0"
            )


def _normalise(
    raw: FloatArray, labels: IntArray, environments: IntArray, method: str, notes: list[str]
) -> Weights:
    """Equal sums for the labels of an environment, its size in total, and mean 1 over all."""
    values = np.zeros(len(raw))
    for environment, rows, present in _environments(labels, environments, None, []):
        place = np.searchsorted(present, labels[rows])
        sums = np.bincount(place, raw[rows])
        if not (sums > 0).all():
            if raw[rows].any():
                notes.append(
                    f"label {present[sums <= 0][0]} of environment {environment} overlaps with no "
                    f"other: the environment's {len(rows):,} examples have weight 0"
                )
            continue
        share = len(rows) / (len(present) * sums)
        values[rows] = raw[rows] * share[place]
    if not values.any():
        raise ValueError("no environment has labels that overlap: no example can be weighted")
    return Weights(values * (len(values) / values.sum()), method, tuple(notes))
