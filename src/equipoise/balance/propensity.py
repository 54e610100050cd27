"""Given covariates -> balancing scores p(y | c, e): two models, the better by held-out log-loss."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.encoding import Encoding, as_table, check_alignment, find_leaks
from equipoise.balance.scores import check_codes, check_environments, count_labels
from equipoise.checks import check_choice, check_count, check_seed

#: Models are compared on at most this many examples, and the better one is fitted to all.
COMPARED_AT_MOST = 20_000
#: Beyond this many labels boosted trees, one for each label and round, are not tried, and
#: logistic regression has one strength of regularisation.
TREES_AT_MOST_LABELS = 40
#: Rows above which cross-fitting uses two folds instead of five.
_MANY = 50_000
_FLOOR = 1e-12  # the least probability a model may give to a label its environment has
_STRENGTHS = (0.03, 1.0, 100.0)
_MODELS = ("logistic", "logistic by environment", "trees")
_STOPS_FROM = 20  # examples of each label, so that boosting may stop early
_ARRAYS = ("environments", "labels_present", "offsets")  # of a Propensity, as they are stored


@dataclass(frozen=True)
class Design:
    """Encoded covariates [N, p] with environments as places 0 … E−1."""

    matrix: FloatArray
    numbers: IntArray
    environments: IntArray
    n_environments: int

    def take(self, rows: IntArray) -> Design:
        return Design(self.matrix[rows], self.numbers, self.environments[rows], self.n_environments)

    @property
    def dummies(self) -> FloatArray:
        """One column for each environment, none where there is only one."""
        if self.n_environments == 1:
            return np.empty((len(self.matrix), 0))
        return np.asarray(self.environments[:, None] == np.arange(self.n_environments), np.float64)

    @property
    def with_environments(self) -> FloatArray:
        return np.hstack([self.matrix, self.dummies])

    def expand(self, interactions: bool) -> FloatArray:
        """With squares, and with products of all columns and environments."""
        matrix, dummies = self.matrix, self.dummies
        # Squares of clipped values: one extreme value must not rule the fit.
        parts = [matrix, np.square(np.clip(matrix[:, self.numbers], -6, 6)) / 4, dummies]
        if interactions:
            parts += [matrix * dummies[:, [e]] for e in range(self.n_environments)]
        return np.hstack(parts)


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression on numbers, their squares, categories and environments."""

    coefficients: FloatArray  # [features + 1, m]; the last row is the intercept
    numbers: IntArray
    interactions: bool

    @classmethod
    def fit(
        cls, interactions: bool, m: int, strength: float, design: Design, labels: IntArray
    ) -> Logistic:
        from sklearn.linear_model import LogisticRegression  # slow to import

        features = design.expand(interactions)
        model = LogisticRegression(C=strength, max_iter=500).fit(features, labels)
        coefficients = np.zeros((features.shape[1] + 1, m))
        coefficients[-1] = -50.0  # a label that was not seen
        coefficients[:, model.classes_] = 0.0
        columns = model.classes_[-len(model.coef_) :]  # of two labels only the second has any
        coefficients[:-1, columns] = model.coef_.T
        coefficients[-1, columns] = model.intercept_
        return cls(coefficients, design.numbers, interactions)

    def logits(self, design: Design) -> FloatArray:
        features = design.expand(self.interactions)
        return np.asarray(features @ self.coefficients[:-1] + self.coefficients[-1])

    def state(self) -> dict[str, NDArray[Any]]:
        return {"coefficients": self.coefficients}


@dataclass(frozen=True)
class Trees:
    """Boosted trees as plain arrays, a row for each node; a leaf points at itself."""

    roots: IntArray  # [trees]
    adds_to: IntArray  # [trees], the label whose logit the tree adds to
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray
    baseline: FloatArray  # [m]
    depth: int
    fitted: Any = None  # the library's own model, faster while it lives

    @classmethod
    def fit(cls, m: int, seed: int, design: Design, labels: IntArray) -> Trees:
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        enough = np.unique(labels, return_counts=True)[1].min() >= _STOPS_FROM
        model = HistGradientBoostingClassifier(
            max_iter=80 if enough else 30,
            max_bins=128,
            max_leaf_nodes=16,
            learning_rate=0.2,
            l2_regularization=1.0,
            early_stopping=bool(enough),
            n_iter_no_change=8,
            random_state=seed,
        ).fit(design.with_environments, labels)
        present = model.classes_
        columns = present if len(present) > 2 else present[1:]
        baseline = np.full(m, -50.0)
        baseline[present] = 0.0
        baseline[columns] = model._baseline_prediction.ravel()
        nodes = [tree.nodes for trees in model._predictors for tree in trees]
        joined = np.concatenate(nodes)
        sizes = np.array([len(part) for part in nodes])
        roots = np.cumsum(sizes) - sizes
        offset = np.repeat(roots, sizes)
        leaf, here = joined["is_leaf"].astype(bool), np.arange(len(joined))
        return cls(
            roots,
            np.tile(columns, len(model._predictors)).astype(np.int64),
            np.where(leaf, 0, joined["feature_idx"]).astype(np.int64),
            np.where(leaf, np.inf, joined["num_threshold"]),
            np.where(leaf, here, joined["left"] + offset).astype(np.int64),
            np.where(leaf, here, joined["right"] + offset).astype(np.int64),
            joined["value"].astype(np.float64),
            baseline,
            int(joined["depth"].max()),
            model,
        )

    def logits(self, design: Design) -> FloatArray:
        rows = design.with_environments
        result = np.tile(self.baseline, (len(rows), 1))
        if self.fitted is not None:
            columns = self.fitted.classes_[-self.fitted.n_trees_per_iteration_ :]
            result[:, columns] = self.fitted.decision_function(rows).reshape(len(rows), -1)
            return result
        step = 1 << 14  # rows that stay in cache
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            here = np.arange(len(part))
            for root, label in zip(self.roots, self.adds_to, strict=True):
                node = np.full(len(part), root)
                for _ in range(self.depth):
                    goes_left = part[here, self.feature[node]] <= self.threshold[node]
                    node = np.where(goes_left, self.left[node], self.right[node])
                result[start : start + step, label] += self.value[node]
        return result

    def state(self) -> dict[str, NDArray[Any]]:
        return {f"tree_{f.name}": np.asarray(getattr(self, f.name)) for f in fields(self)[:-1]}


Model = Logistic | Trees
Fit = Callable[[Design, IntArray], Model]


@dataclass(frozen=True, repr=False)
class Propensity:
    """Scores log p(y | c, e) of given covariates, and the model for further examples.

    Attributes
    ----------
    log_scores : array [N, m]
        Each example scored by a model fitted without it; None after `from_state`.
    model : str
        "logistic", "logistic by environment" or "trees": the least held-out log-loss.
    log_losses : dict of str to float
        Held-out log-loss of each model that was tried, and "constant" for p(y | e) alone.
    notes, leaks : tuple of str
        What was left out or pooled; covariates that predict the label almost perfectly.
    """

    log_scores: FloatArray | None
    model: str
    log_losses: dict[str, float]
    encoding: Encoding
    environments: IntArray  # codes that were seen
    labels_present: NDArray[np.bool_]  # [E, m]
    temperature: float
    offsets: FloatArray  # [E, m]
    fitted: Model
    notes: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()

    def score(self, covariates: Any, environments: Any = None) -> FloatArray:
        """Log-scores [N, m] of further examples of the environments that were fitted."""
        design = _make_design(self.encoding, covariates, environments, self.environments)
        logits, where = self.fitted.logits(design), design.environments
        calibrated = self.temperature * logits + self.offsets[where]
        return _normalise(calibrated, self.labels_present[where])

    def state(self) -> dict[str, NDArray[Any]]:
        """Plain arrays (and one JSON text as bytes) for a safetensors or npz file."""
        words = {
            name: self.encoding.state() if name == "encoding" else getattr(self, name)
            for name in ("model", "log_losses", "encoding", "notes", "leaks", "temperature")
        }
        text = np.frombuffer(json.dumps(words).encode(), dtype=np.uint8)
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return {"words": text, **arrays, **self.fitted.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]]) -> Propensity:
        """What `state` gave, ready to score further examples."""
        words = json.loads(np.asarray(state["words"], dtype=np.uint8).tobytes().decode())
        words["encoding"] = encoding = Encoding.from_state(words["encoding"])
        words |= {name: tuple(words[name]) for name in ("notes", "leaks")}
        fitted: Model
        if "coefficients" in state:
            by_environment = words["model"] == _MODELS[1]
            fitted = Logistic(state["coefficients"], encoding.numbers, by_environment)
        else:
            parts: dict[str, Any] = {f.name: state[f"tree_{f.name}"] for f in fields(Trees)[:-1]}
            fitted = Trees(**{**parts, "depth": int(parts["depth"])})
        arrays: Any = {name: state[name] for name in _ARRAYS}
        arrays["labels_present"] = np.asarray(arrays["labels_present"], dtype=bool)
        return cls(log_scores=None, fitted=fitted, **words, **arrays)

    def __repr__(self) -> str:
        losses = ", ".join(f"{name} {loss:.4f}" for name, loss in self.log_losses.items())
        return (
            f"Propensity({self.labels_present.shape[1]} labels, "
            f"{len(self.encoding.names)} covariates, {self.model}; held-out log-loss: {losses})"
        )


def fit_propensity(
    covariates: Any,
    labels: Any,
    environments: Any = None,
    *,
    seed: int = 0,
    model: str = "auto",
    n_folds: int | None = None,
    n_labels: int | None = None,
) -> Propensity:
    """Estimate p(y | c, e) from given covariates, every example scored by a model without it.

    Regularised logistic regression (with squares; with or without coefficients for each
    environment) is compared with boosted trees on held-out log-loss. The better one is
    cross-fitted and calibrated within each environment.

    Parameters
    ----------
    covariates : DataFrame or array-like, [N, p]
        Numbers, categories or a mixture; missing values get an indicator or a category.
    labels, environments : integer codes [N]
        None for a single environment.
    seed : int
        Fixes the folds and the trees.
    model : str
        "auto", or one of "logistic", "logistic by environment", "trees".
    n_folds : int, optional
        Default 5, and 2 above 50,000 examples or 40 labels.
    n_labels : int, optional
        Default: the largest label + 1.

    >>> rng = np.random.default_rng(0)
    >>> age = rng.normal(size=400)
    >>> ill = (rng.random(400) < 1 / (1 + np.exp(-2 * age))).astype(int)
    >>> made = fit_propensity(age, ill, seed=0)
    >>> made.log_scores.shape
    (400, 2)
    """
    codes, m = count_labels(labels, n_labels)
    n = len(codes)
    table = as_table(covariates)
    check_alignment(covariates, labels, n)
    seed = check_seed("seed", seed)
    if n_folds is not None:
        check_count("n_folds", n_folds, least=2, most=n)
    check_choice("model", model, ("auto", *_MODELS))
    where = check_environments(environments, n)
    known, places = np.unique(where, return_inverse=True)
    encoding = Encoding.learn(table, where if environments is not None else None)
    leaks = find_leaks(table, codes)
    if leaks:
        warnings.warn(
            f"covariate {'; '.join(leaks)}: if it is a consequence of the label, leave it out, "
            "since balancing would remove what is to be learned",
            stacklevel=2,
        )
    design = _make_design(encoding, table, where, known)
    present = np.zeros((len(known), m), dtype=bool)
    present[places, codes] = True
    notes = list(encoding.notes)
    few = n > _MANY or m > TREES_AT_MOST_LABELS
    folds = _deal_folds(codes, places, n_folds or (2 if few else 5), seed, notes)

    logits = np.empty((n, m))
    with threadpool_limits(1):  # steps are so short that threads would mostly wait
        chosen, fit, losses = _choose(model, design, codes, present, seed, notes)
        whole = fit(design, codes)
        for fold in np.unique(folds):  # −1 are labels with one example
            held_out, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            made = whole if fold < 0 else fit(design.take(others), codes[others])
            logits[held_out] = made.logits(design.take(held_out))
    temperature, offsets = _fit_calibration(logits, codes, places, present)
    log_scores = _normalise(temperature * logits + offsets[places], present[places])
    found = log_scores, chosen, losses, encoding, known, present, temperature, offsets, whole
    return Propensity(*found, tuple(notes), leaks)


def _make_design(encoding: Encoding, covariates: Any, environments: Any, known: IntArray) -> Design:
    matrix = encoding.encode(covariates)
    if environments is None and len(known) > 1:
        raise ValueError(f"the scores were fitted on {len(known)} environments: give environments")
    only = np.full(len(matrix), known[0]) if environments is None else environments
    codes = check_codes("environments", only, len(matrix))
    places = np.searchsorted(known, codes).clip(max=len(known) - 1)
    unknown = np.unique(codes[known[places] != codes])
    if len(unknown):
        raise ValueError(
            f"environment {unknown[0]} was not fitted; known: {', '.join(map(str, known))}"
        )
    return Design(matrix, encoding.numbers, places, len(known))


def _deal_folds(
    labels: IntArray, places: IntArray, n_folds: int, seed: int, notes: list[str]
) -> IntArray:
    """A fold for each example, spread over environments and labels; −1 for a label's only one."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    stratum = places * (labels.max() + 1) + labels
    order = shuffled[np.argsort(stratum[shuffled], kind="stable")]
    folds = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % n_folds
    # A label that lies in one fold alone could not be learned when that fold is held out.
    seen = np.zeros((labels.max() + 1, n_folds), dtype=bool)
    seen[labels, folds] = True
    alone = np.flatnonzero(seen.sum(axis=1) == 1)
    if len(alone):
        folds[np.isin(labels, alone)] = -1
        notes.append(f"{len(alone):,} labels with one example are scored by a model that saw it")
    return folds


def _choose(
    model: str,
    design: Design,
    labels: IntArray,
    present: NDArray[np.bool_],
    seed: int,
    notes: list[str],
) -> tuple[str, Fit, dict[str, float]]:
    """The model to use, how it is fitted, and the held-out log-loss of all that were tried."""
    m = present.shape[1]
    fits: dict[str, Fit] = {}
    losses: dict[str, FloatArray] = {}
    rows = np.sort(np.random.default_rng([seed, 1]).permutation(len(labels))[:COMPARED_AT_MOST])
    design, labels = design.take(rows), labels[rows]
    folds = _deal_folds(labels, design.environments, 3, seed, [])
    parts = [(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)) for fold in range(3)]
    scored = np.concatenate([test for _, test in parts])

    def loss_of(logits_of: Callable[[IntArray, IntArray], FloatArray]) -> FloatArray:
        logits = np.concatenate([logits_of(train, test) for train, test in parts])
        log = _normalise(logits, present[design.environments[scored]])
        own = log[np.arange(len(scored)), labels[scored]]
        return np.asarray(-np.maximum(own, np.log(_FLOOR)))

    def held_out(fit: Fit, train: IntArray, test: IntArray) -> FloatArray:
        if not len(test):
            return np.empty((0, m))
        return fit(design.take(train), labels[train]).logits(design.take(test))

    def consider(name: str, options: list[Fit]) -> None:
        tried = [loss_of(partial(held_out, fit)) for fit in options]
        best = int(np.argmin([loss.mean() for loss in tried]))
        fits[name], losses[name] = options[best], tried[best]

    def constant(train: IntArray, test: IntArray) -> FloatArray:
        counts = np.full(present.shape, 0.5)
        np.add.at(counts, (design.environments[train], labels[train]), 1)
        return np.asarray(np.log(counts)[design.environments[test]])

    losses["constant"] = loss_of(constant)
    for by_environment, name in enumerate(_MODELS[:2]):
        if model == name or (model == "auto" and (not by_environment or len(present) > 1)):
            strengths = _STRENGTHS if m <= TREES_AT_MOST_LABELS else _STRENGTHS[:1]
            consider(name, [partial(Logistic.fit, bool(by_environment), m, c) for c in strengths])
    if model == "trees" or (model == "auto" and m <= TREES_AT_MOST_LABELS):
        consider("trees", [partial(Trees.fit, m, seed)])
    elif model == "auto":
        notes.append(f"boosted trees were not tried: {m} labels are more than they can do in time")
    # The first is the simplest; another must be better by a standard error.
    chosen = next(iter(fits))
    for name in fits:
        gain = losses[chosen] - losses[name]
        if gain.mean() > gain.std() / np.sqrt(len(gain)):
            chosen = name
    return chosen, fits[chosen], {name: float(loss.mean()) for name, loss in losses.items()}


def _fit_calibration(
    logits: FloatArray, labels: IntArray, places: IntArray, present: NDArray[np.bool_]
) -> tuple[float, FloatArray]:
    """A temperature, and an offset for each environment and label, by held-out log-loss."""
    n, shape = len(logits), present.shape
    mask = present[places]
    seen = mask.any(axis=0)

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        temperature, offsets = np.exp(parameters[0]), parameters[1:].reshape(shape)
        log = _normalise(temperature * logits + offsets[places], mask)
        residual = np.exp(log)
        chosen = log[np.arange(n), labels]
        residual[np.arange(n), labels] -= 1.0
        slope = temperature * float((residual * logits).sum())
        by_cell = np.zeros(shape)
        for label in np.flatnonzero(seen):
            by_cell[:, label] = np.bincount(places, residual[:, label], minlength=shape[0])
        gradient = np.append(slope, by_cell) / n + 1e-6 * parameters
        return float(-chosen.mean()) + 5e-7 * float(parameters @ parameters), gradient

    how: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 60}}
    found = minimize(loss, np.zeros(1 + present.size), **how)
    return float(np.exp(found.x[0])), found.x[1:].reshape(shape)


def _normalise(logits: FloatArray, present: NDArray[np.bool_]) -> FloatArray:
    """Log-probabilities over the labels that an environment has; −inf for the others."""
    return np.asarray(log_softmax(np.where(present, logits, -np.inf), axis=1))
