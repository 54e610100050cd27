"""What a verdict rests on: is the link itself different, are there enough rows, is there a leak."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.stats import chi2, ncx2
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from equipoise.balance.groups import POOLED, Groups
from equipoise.diagnosis.information import share_told
from equipoise.diagnosis.price import Bargain, draw_rows
from equipoise.latent import FlipTest, VaryingPart

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_ROWS = 10_000
#: More terms than this are not tested one by one; see `compare_links`.
MAX_TERMS = 60
#: A moderate link: cell means differ by this variance of the interaction, in units of the
#: variance within cells. A binary covariate that agrees with the label in 90, 80 and 70 % of
#: three environments has 0.04.
MODERATE = 0.02
LEVEL, POWER = 0.01, 0.9
#: Part of the error rate of `compare_links` that its test of strength has.
SHARE_OF_STRENGTH = 0.02
#: A column that errs on at most this share of the rows, in every environment, is a leak.
LEAK_ERRORS = 0.01
#: Numbers with more values than this are cut by a small tree.
MANY_VALUES = 32


@dataclass(frozen=True)
class Evidence:
    """What a verdict is decided from.

    Attributes
    ----------
    varying : VaryingPart or None
        What was found by the test; None if something else was balanced.
    sources : tuple of str
        Names of the columns found, or of those that directions resemble most.
    given : bool
        The covariates were named by the user.
    information : DataFrame
        Of `tabulate_information`.
    left : FlipTest or None
        The joint test under the balanced weights.
    same_link : float
        p-value that the label depends on what was found alike in every environment.
    bargain : Bargain or None
    leaks : tuple of str
        Columns that give the label away.
    markers : tuple of str
        Columns that tell the environments apart.
    rows, rows_needed : int
        Examples there are, and how many would do to find a moderate link.
    n_matches, n_labels : int
        Matches of an anchor, None without matches.
    shown : bool
        Squares or products that vary were shown to a second linear classifier.
    alone : tuple of str
        Environments that have one label only.
    effective : float
        Effective sample size of the weights, as a share of the examples.
    rare : tuple of str
        Labels with less than a tenth of the examples that an even share would be.
    """

    varying: VaryingPart | None
    information: pd.DataFrame
    left: FlipTest | None = None
    same_link: float = math.nan
    bargain: Bargain | None = None
    sources: tuple[str, ...] = ()
    given: bool = False
    leaks: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    rows: int = 0
    rows_needed: int = 0
    n_matches: int | None = None
    n_labels: int = 2
    shown: bool = False
    alone: tuple[str, ...] = ()
    effective: float = 1.0
    rare: tuple[str, ...] = ()

    @property
    def tested(self) -> bool:
        return self.varying is not None and not math.isnan(self.varying.p_value)

    @property
    def nothing_found(self) -> bool:
        """The test found no link that varies, and the user named none."""
        return not self.given and self.varying is not None and len(self.varying) == 0

    def predicted(self, when: str) -> float:
        """Share of the label's entropy that is predicted within environments, by z or the score."""
        kind = "score" if self.given else "z"
        rows = self.information[self.information["kind"] == kind]
        rows = rows[rows["environment"] != POOLED]
        return share_told(rows, when, "examples" if when == "before" else "left")

    @property
    def left_out(self) -> int:
        """Examples that balanced batches never show."""
        rows = self.information[self.information["kind"] == "score"]
        rows = rows[rows["environment"] == POOLED]
        return int((rows["examples"] - rows["left"]).sum())


def compare_links(coordinates: Floats, labels: Ints, environments: Ints, *, seed: int = 0) -> float:
    """p-value that p(y | s, e) is the same in every environment up to an intercept.

    Content whose distribution shifts between environments shows an interaction of label and
    environment too, but predicts the label alike everywhere. A likelihood-ratio test of
    environment × (s, s²) in logistic regression; where that has more than 60 terms, of
    environment × the fitted logits. Of several coordinates also a test that the link is equally
    strong everywhere, with one term for each environment; it has 2 % of the error rate.

    >>> rng = np.random.default_rng(0)
    >>> e = rng.integers(2, size=4000)
    >>> s = rng.normal(size=4000) * (1 + e)  # the spread differs, p(y | s) does not
    >>> y = (rng.random(4000) < 1 / (1 + np.exp(-s))).astype(int)
    >>> compare_links(s[:, None], y, e) > 0.05
    True
    """
    rows = draw_rows(labels, environments, MAX_ROWS, seed)
    y, e = labels[rows], np.unique(environments[rows], return_inverse=True)[1]
    terms = _make_terms(coordinates[rows])
    intercepts = np.eye(int(e.max()) + 1)[e][:, 1:]
    n_labels, n_others = len(np.unique(y)), intercepts.shape[1]
    if n_labels < 2 or not n_others or not terms.shape[1]:
        return float("nan")
    bends = _make_bends(terms, coordinates.shape[1])
    null, model = _fit(np.hstack([terms, intercepts, bends]), y)
    # One coordinate has few coefficients, and its curve would have to be known exactly.
    strength = compare_strength(terms, y, e, seed) if coordinates.shape[1] > 1 else 1.0
    freedom = (n_labels - 1) * n_others * terms.shape[1]
    if freedom > min(MAX_TERMS, len(y) // 20):
        logits = terms @ model.coef_[:, : terms.shape[1]].T
        terms = logits[:, : 1 if n_labels == 2 else n_labels]
        terms = terms / np.maximum(terms.std(axis=0), 1e-9)
        bends = bends[:, :0]
        null, _ = _fit(np.hstack([terms, intercepts]), y)
        freedom = (n_labels - 1) * n_others * terms.shape[1]
    crossed = [terms * intercepts[:, [place]] for place in range(n_others)]
    full, _ = _fit(np.hstack([terms, intercepts, bends, *crossed]), y)
    any_change = float(chi2.sf(max(0.0, 2 * (full - null)), freedom))
    return min(1.0, any_change / (1 - SHARE_OF_STRENGTH), strength / SHARE_OF_STRENGTH)


def compare_strength(terms: Floats, labels: Ints, environments: Ints, seed: int) -> float:
    """p-value that one slope of held-out logits serves every environment.

    A link that is strong in one environment and weak in another has the same logits up to a
    factor: a test of E − 1 factors has more power than one of every coefficient.
    """
    m, n_environments = int(labels.max()) + 1, int(environments.max()) + 1
    intercepts = np.eye(n_environments)[environments]
    logits = np.zeros((len(labels), m))
    folds = np.random.default_rng([seed, 0x510]).permutation(len(labels)) % 2
    for fold in (0, 1):
        train, test = folds != fold, folds == fold
        if len(np.unique(labels[train])) < 2:
            return 1.0
        _, model = _fit(np.hstack([terms, intercepts])[train], labels[train])
        own = terms[test] @ model.coef_[:, : terms.shape[1]].T
        if len(model.classes_) == 2:
            own = np.hstack([np.zeros((len(own), 1)), own])
        logits[np.ix_(test, model.classes_)] = own
    alone = 0.0

    def lose(slope: float, environment: int) -> float:
        here = environments == environment
        return _lose_at(slope, logits[here], labels[here])

    for environment in range(n_environments):
        alone += minimize_scalar(lose, (0.0, 1.0), args=(environment,), tol=1e-4).fun
    together = minimize_scalar(
        lambda slope: sum(lose(slope, e) for e in range(n_environments)), (0.0, 1.0), tol=1e-4
    )
    return float(chi2.sf(max(0.0, 2 * (together.fun - alone)), n_environments - 1))


def _lose_at(slope: float, logits: Floats, labels: Ints) -> float:
    """Least −log-likelihood of slope × logits over the labels' intercepts (Newton steps)."""
    present, own = np.unique(labels, return_inverse=True)
    s = slope * logits[:, present]
    counts = np.bincount(own).astype(np.float64)
    b = np.log(counts)
    for _ in range(50):
        t = s + b
        t -= t.max(axis=1, keepdims=True)
        p = np.exp(t)
        p /= p.sum(axis=1, keepdims=True)
        wanted = counts - p.sum(axis=0)
        if np.abs(wanted).max() < 1e-6 * len(labels):
            break
        # Each label's frequency as it was: iterative scaling.
        b += np.log(counts / np.maximum(p.sum(axis=0), 1e-12))
    return float(-np.log(np.maximum(p[np.arange(len(own)), own], 1e-300)).sum())


def _make_terms(coordinates: Floats) -> Floats:
    """Standardised coordinates, and squares of those with more than two values."""
    scale = coordinates.std(axis=0)
    s = np.clip((coordinates - coordinates.mean(axis=0)) / np.where(scale > 0, scale, 1.0), -5, 5)
    many = [j for j in range(s.shape[1]) if len(np.unique(s[:, j])) > 2]
    return np.hstack([s, s[:, many] ** 2])


def _make_bends(terms: Floats, n_coordinates: int) -> Floats:
    """Hinges that let the common curve take any shape; its bend is then not taken for a change."""
    s = terms[:, :n_coordinates]
    if n_coordinates > 3:
        return s[:, :0]
    knots = np.quantile(s, (0.1, 0.3, 0.5, 0.7, 0.9), axis=0)
    return np.hstack([np.maximum(s - knot, 0.0) for knot in knots])


def _fit(design: Floats, labels: Ints) -> tuple[float, Any]:
    """Log-likelihood of a logistic regression with hardly any penalty, and the model."""
    solver = "newton-cholesky" if len(np.unique(labels)) == 2 else "lbfgs"
    model = LogisticRegression(C=1e3, solver=solver, tol=1e-5, max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(design, labels)
    own = np.searchsorted(model.classes_, labels)
    likelihood = model.predict_proba(design)[np.arange(len(labels)), own]
    return float(np.log(np.maximum(likelihood, 1e-13)).sum()), model


def count_rows_needed(labels: Ints, environments: Ints, n_features: int) -> int:
    """Rows at which a moderate link that varies is found nine times of ten.

    The interaction of one of `n_features` features is χ² with (m − 1)(E − 1) degrees of freedom,
    tested at 1 % in all. Cells of unequal size need more rows.

    >>> labels, environments = np.tile([0, 1], 600), np.repeat([0, 1, 2], 400)
    >>> count_rows_needed(labels, environments, 7)
    1200
    """
    _, sizes = np.unique(np.stack([environments, labels], axis=1), axis=0, return_counts=True)
    freedom = max(1, (len(np.unique(labels)) - 1) * (len(np.unique(environments)) - 1))
    limit = chi2.ppf(1 - LEVEL / max(1, n_features), freedom)
    shifts = np.linspace(1, 400, 4000)
    needed = shifts[int(np.argmax(ncx2.sf(limit, freedom, shifts) >= POWER))]
    uneven = len(labels) * float(np.mean(1.0 / sizes)) / len(sizes)
    return int(np.ceil(needed / MODERATE * uneven / 100) * 100)


def find_leaks(columns: Mapping[str, Any], groups: Groups) -> tuple[str, ...]:
    """Names of columns that give the label away, or nearly, in every environment.

    >>> groups = Groups(np.tile([0, 1], 40), np.repeat([0, 1], 40), ("a", "b"), ("x", "y"))
    >>> find_leaks({"code": np.tile([7.0, 3.0], 40), "age": np.arange(80) % 5}, groups)
    ('code',)
    """
    return tuple(name for name, values in columns.items() if _gives_away(values, groups))


def find_markers(columns: Mapping[str, Any], groups: Groups) -> tuple[str, ...]:
    """Names of columns that tell the environments apart, or nearly.

    >>> groups = Groups(np.tile([0, 1], 40), np.repeat([0, 1], 40), ("a", "b"), ("x", "y"))
    >>> find_markers({"camera": np.repeat([1.0, 2.0], 40), "age": np.arange(80) % 5}, groups)
    ('camera',)
    """
    if groups.shape[0] < 2:
        return ()
    nowhere = np.zeros(len(groups), dtype=np.int64)
    turned = Groups(groups.environments, nowhere, groups.environment_names, ("all",))
    return find_leaks(columns, turned)


def _gives_away(values: Any, groups: Groups) -> bool:
    column = pd.Series(np.asarray(values))
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > MANY_VALUES:
        numbers = column.fillna(column.mean()).to_numpy(dtype=np.float64)[:, None]
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * groups.shape[1], random_state=0)
        column = pd.Series(tree.fit(numbers, groups.labels).apply(numbers))
    codes, levels = pd.factorize(column, use_na_sentinel=False)
    if len(levels) < 2 or len(levels) > len(codes) / 4:
        return False
    n_environments, m = groups.shape
    cells = np.zeros((n_environments, len(levels), m))
    np.add.at(cells, (groups.environments, codes, groups.labels), 1.0)
    sizes = cells.sum(axis=(1, 2))
    errors = sizes - cells.max(axis=2).sum(axis=1)
    rarest = sizes - cells.sum(axis=1).max(axis=1)  # errors of the most frequent label
    several = rarest > 0
    return bool(
        several.any()
        and (errors <= LEAK_ERRORS * sizes)[several].all()
        and (errors <= 0.1 * rarest)[several].all()
    )
