"""How much of the true Z a model has found: up to A, component by component, and by its score."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from equipoise.balance import match_scores

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def affine_r2(truth: Floats, found: Floats) -> float:
    """Share of the variance of `truth` [N, p] that an affine map of `found` [N, q] explains.

    1 means equal up to ∼_A of Definition 3.2. The map is fitted on every other row and judged
    on the rest; the mean over columns.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(affine_r2(z, z @ [[1.0, 2.0], [0.0, 3.0]] + 5.0), 6)
    1.0
    """
    missed = np.square(_miss(truth, found)).mean(axis=0)
    return float(np.mean(1.0 - missed / truth[1::2].var(axis=0)))


def worst_direction_r2(truth: Floats, found: Floats) -> float:
    """The least of `affine_r2` over all directions of `truth`, not only its columns.

    A direction that varies little hides in the mean over columns; Definition 3.2 asks for it too.

    >>> z = np.random.default_rng(0).normal(size=(1000, 2)) * [10.0, 1.0]
    >>> turned = z @ [[0.6, 0.8], [-0.8, 0.6]]
    >>> affine_r2(turned, z[:, :1]) > 0.95, worst_direction_r2(turned, z[:, :1]) < 0.05
    (True, True)
    """
    missed = _miss(truth, found)
    kept = truth[1::2]
    covariance = np.cov(kept.T)
    left = missed.T @ missed / len(missed)
    return float(1.0 - eigh(left, covariance, eigvals_only=True)[-1])


def average_within(
    measure: Callable[[Floats, Floats], float], truth: Floats, found: Floats, labels: Ints
) -> float:
    """The mean of a measure over labels: every label may have an affine map of its own."""
    members = [labels == label for label in np.unique(labels)]
    return float(np.mean([measure(truth[rows], found[rows]) for rows in members]))


def mean_correlation(truth: Floats, found: Floats) -> float:
    """MCC: |correlation| of components, paired so that their sum is the largest.

    >>> z = np.random.default_rng(0).normal(size=(100, 2))
    >>> round(mean_correlation(z, -z[:, ::-1]), 6)
    1.0
    """
    n = truth.shape[1]
    correlation = np.abs(np.corrcoef(truth.T, found.T)[:n, n:])
    return float(correlation[linear_sum_assignment(correlation, maximize=True)].mean())


def score_distance(log_truth: Floats, log_found: Floats) -> float:
    """Mean total variation between true and learned propensities [N, m]; 0 is recovery.

    >>> score_distance(np.log([[0.5, 0.5]]), np.log([[0.8, 0.2]])).__round__(6)
    0.3
    """
    return float(0.5 * np.abs(np.exp(log_truth) - np.exp(log_found)).sum(axis=1).mean())


def match_distance(log_truth: Floats, log_used: Floats, labels: Ints, environments: Ints) -> float:
    """Mean total variation of *true* propensities between anchors and their matches.

    Matches are made on `log_used`. Against matching on the truth itself the difference is what
    learned scores cost.
    """
    nearest = match_scores(log_used, labels, environments).indices[:, :, 0]  # [N, m]
    anchors, others = np.nonzero(nearest >= 0)
    true = np.exp(log_truth)
    apart = np.abs(true[anchors] - true[nearest[anchors, others]])
    return float(0.5 * apart.sum(axis=1).mean())


def _miss(truth: Floats, found: Floats) -> Floats:
    """What an affine map of `found`, fitted on every other row, misses of the rest."""
    inputs = np.concatenate([found, np.ones((len(found), 1))], axis=1)
    solution = np.linalg.lstsq(inputs[::2], truth[::2], rcond=None)[0]
    return np.asarray(truth[1::2] - inputs[1::2] @ solution)
