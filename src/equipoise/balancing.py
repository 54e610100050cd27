"""The balancing half of a balancer: scores -> matches or weights, and rows taken by them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse

from equipoise.balance import (
    MatchSource,
    balanced_frequencies,
    choose_tolerance,
    entropy_weights,
    find_matches,
    overlap_weights,
)
from equipoise.data import Examples
from equipoise.scoring import join_covariates

if TYPE_CHECKING:
    from equipoise.balancer import CausalBalancer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

METHODS = ("match", "overlap", "entropy")
#: Equal scores are told apart by a draw of this size, so that every example of a label is as
#: likely to be a match as another.
TIE_BREAK = 1e-3


def choose_support(balancer: CausalBalancer, n_labels: int) -> bool | float | str:
    """The rule for examples that some label hardly has: by default for two labels only."""
    given: bool | float | str | None = balancer.common_support
    if given is None:
        return "auto" if balancer.balance_on == "varying" and n_labels == 2 else False
    return given


def match_examples(
    balancer: CausalBalancer,
    scores: Floats,
    labels: Ints,
    environments: Ints,
    covariates: pd.DataFrame | None,
    seed: int,
) -> MatchSource:
    """Match examples by their log-scores with the balancer's parameters."""
    noise = np.random.default_rng([seed, 0x71E5]).normal(size=scores.shape)
    apart = scores + TIE_BREAK * noise
    apart = apart - np.logaddexp.reduce(apart, axis=1)[:, None]
    tolerance = balancer.tolerance
    if isinstance(tolerance, str):  # "auto"
        tolerance = choose_tolerance(apart, environments, balancer.metric)
    exact = None
    if len(balancer.exact) and covariates is not None:
        # One code for each combination of the covariates that must agree.
        joined = covariates[list(balancer.exact)].astype(str).agg("\x1f".join, axis=1)
        exact = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    as_given = ("metric", "n_nearest", "caliper", "reuse_max", "n_jobs")
    return find_matches(
        apart,
        labels,
        environments,
        common_support=choose_support(balancer, scores.shape[1]),
        exact=exact,
        tolerance=tolerance,
        **{name: getattr(balancer, name) for name in as_given},
    )


def balance_examples(
    balancer: CausalBalancer,
    scores: Floats,
    z: Floats,
    examples: Examples,
    covariates: pd.DataFrame | None,
    seed: int,
) -> tuple[MatchSource | None, Floats]:
    """Matches if that is the method, and a weight for each example, mean 1."""
    codes = examples.labels, examples.environments
    if balancer.method == "match":
        matches = match_examples(balancer, scores, *codes, covariates, seed)
        if not matches.matched.any():
            raise ValueError(_tell_unmatched(balancer, scores.shape[1]))
        weights = balanced_frequencies(matches)
        return matches, weights / weights.mean()
    target = None
    if balancer.target is not None:
        target = int(np.flatnonzero(examples.names.classes == balancer.target)[0])
    if balancer.method == "entropy" and (covariates is not None or z.shape[1]):
        given = () if covariates is None else tuple(covariates.columns)
        joint = join_covariates(covariates, z, given)
        return None, entropy_weights(joint, *codes, target=target).values
    return None, overlap_weights(scores, *codes, target=target).values


def weigh_examples(
    balancer: CausalBalancer, examples: Examples, covariates: pd.DataFrame | None, seed: int
) -> Floats:
    """Weights of further examples, mean 1; all 0, with a warning, where none has a match."""
    if not len(examples):
        return np.zeros(0)
    scores = balancer.score_.score(examples, covariates)
    if balancer.method != "match":
        z = balancer.score_.coordinates(examples)
        return balance_examples(balancer, scores, z, examples, covariates, seed)[1]
    codes = examples.labels, examples.environments
    matches = match_examples(balancer, scores, *codes, covariates, seed)
    weights = balanced_frequencies(matches)
    if not weights.any():
        warnings.warn(
            f"all weights are 0: {_tell_unmatched(balancer, scores.shape[1])}", stacklevel=3
        )
        return weights
    return np.asarray(weights / weights.mean())


def resample(balancer: CausalBalancer, X: Any, y: Any) -> tuple[Ints, Any, Any]:
    """Rows of the fitted X and y by matches or weights, with the rows' numbers before them."""
    generator = np.random.default_rng(balancer._seed)
    if balancer.matches_ is None:  # as many rows as there are examples
        n = len(balancer.weights_)
        rows = generator.choice(n, n, p=balancer.weights_ / balancer.weights_.sum())
    else:  # every anchor followed by its matches
        sampler: Any = balancer.batch_sampler(anchors_per_environment=1)
        anchors = np.flatnonzero(balancer.matches_.matched)
        rows = sampler.draw_groups(anchors, generator).ravel()
        rows = rows[rows >= 0]
    labels = balancer.classes_[balancer._labels[rows]]
    if _is_frame(y):
        labels = _take_rows(y, rows)
    if _is_frame(X) or isinstance(X, np.ndarray | list | tuple | torch.Tensor) or issparse(X):
        return rows, _take_rows(X, rows), labels
    return rows, balancer._examples.source.fetch(rows), labels


def _is_frame(X: Any) -> bool:
    """Whether X is a table or column of pandas or polars."""
    return hasattr(X, "iloc") or type(X).__module__.startswith("polars")


def _take_rows(X: Any, rows: Ints) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if isinstance(X, torch.Tensor):
        return X[torch.from_numpy(rows)]
    return np.asarray(X)[rows] if isinstance(X, list | tuple) else X[rows]


def _tell_unmatched(balancer: CausalBalancer, n_labels: int) -> str:
    support = choose_support(balancer, n_labels)
    return (
        f"caliper={balancer.caliper!r} and common_support={support!r} leave no "
        "example with a match: allow more, or give environments with several labels"
    )
