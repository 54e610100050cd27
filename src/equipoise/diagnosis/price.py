"""Both sides of the bargain: accuracy that balanced training costs, and accuracy that it saves.

Small classifiers are trained plainly and with the balancing weights, and tested on examples
they have not seen. Reweighting the test by the scores p(y | z, e) shows three situations: the
link of covariate and label as it is, without any link (even), and reversed. The labels of an
environment keep their frequencies in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.diagnosis.judges import Judge, make_judges

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SITUATIONS = ("as they are", "even", "reversed")
#: Of tables and of images: a network's steps take the same time however many there are.
MAX_ROWS, MAX_IMAGES = 6_000, 20_000
N_FOLDS, N_FOLDS_OF_IMAGES = 5, 2
#: Environments are left out one by one, or in at most so many groups: of tables and of images.
MAX_LEFT_OUT, MAX_LEFT_OUT_OF_IMAGES = 4, 3
#: Scores below this share of a label's own frequency, times the number of labels, are taken for
#: it, so that no example decides alone.
FLOOR = 0.01


@dataclass(frozen=True)
class Bargain:
    """What balanced training costs and saves, in points of accuracy with standard errors.

    Attributes
    ----------
    situations : DataFrame
        Rows "as they are", "even", "reversed"; columns plain, plain_error, balanced,
        balanced_error, one_label (the best that naming always the same label would do).
    price, price_error : float
        Accuracy lost where the link stays as it is: plain − balanced.
    held_out, held_out_error : float
        The same on held-out examples of the training environments.
    left_out, left_out_error : float
        The same on environments left out of training; NaN with fewer than three.
    even_gain, even_gain_error : float
        Accuracy gained where the covariate predicts nothing: balanced − plain.
    protection, protection_error : float
        Accuracy gained where the link is reversed.
    """

    situations: pd.DataFrame
    price: float
    price_error: float
    held_out: float
    held_out_error: float
    left_out: float
    left_out_error: float
    even_gain: float
    even_gain_error: float
    protection: float
    protection_error: float


def measure_bargain(
    x: NDArray,
    labels: Ints,
    environments: Ints,
    log_scores: Floats,
    weights: Floats,
    *,
    seed: int,
    curves: Floats | None = None,
) -> Bargain:
    """Compare plain and balanced training of small classifiers, see `make_judges`.

    Parameters
    ----------
    x : float array [N, p], or [N, c, h, w] of images
        What a classifier sees. Images are shrunk to 32 pixels a side. Of more than 250 columns,
        components and those of the 50 strongest that components do not explain.
    labels, environments : int array [N]
    log_scores : float array [N, m]
        log p(y | z, e), cross-fitted.
    weights : float array [N]
        Of balanced training.
    seed : int
        Draws at most 6,000 rows or 20,000 images, and the folds.
    curves : float array [N, k], optional
        Squares and products that vary. A second linear classifier sees them beside the columns:
        some models can learn them of the columns, and some cannot.
    """
    is_image = x.ndim > 2
    rows = draw_rows(labels, environments, MAX_IMAGES if is_image else MAX_ROWS, seed)
    y, e, w = labels[rows], environments[rows], weights[rows]
    with threadpool_limits(1):
        judges = make_judges(x[rows], y, None if curves is None else curves[rows], seed)
        n_folds = N_FOLDS_OF_IMAGES if is_image else N_FOLDS
        right = _test_both(judges, y, w, _deal(e * (int(y.max()) + 1) + y, n_folds, seed))  # [2, n]
        places = _group_environments(e, MAX_LEFT_OUT_OF_IMAGES if is_image else MAX_LEFT_OUT)
        apart = _test_both(judges, y, w, places) if places.max() > 1 else None
    table, differences = {}, {}
    for situation, mass in weigh_situations(log_scores[rows], y, e).items():
        shares = mass / mass.sum()
        cells = [_mean(100 * own, shares) for own in (*right, right[1] - right[0])]
        one_label = 100 * np.bincount(y, weights=shares).max()
        table[situation] = [*cells[0], *cells[1], one_label]
        differences[situation] = cells[2]
    columns = ["plain", "plain_error", "balanced", "balanced_error", "one_label"]
    held_out = -differences["as they are"][0], differences["as they are"][1]
    left_out = (np.nan, np.nan)
    if apart is not None:
        left_out = _mean_over(100 * (apart[0] - apart[1]), places)
    price = held_out
    return Bargain(
        pd.DataFrame.from_dict(table, orient="index", columns=columns),
        *price,
        *held_out,
        *left_out,
        *differences["even"],
        *differences["reversed"],
    )


def weigh_situations(log_scores: Floats, labels: Ints, environments: Ints) -> dict[str, Floats]:
    """Weights [N] that turn a sample into each situation; labels stay as frequent as they are.

    With the frequencies f of the labels in an environment, p(y | z, e) / f says how often a label
    shows z. Even: every label shows z as often as all labels together. Reversed: as often as the
    other labels together do.

    >>> scores, nowhere = np.log([[0.8, 0.2], [0.8, 0.2]]), np.zeros(2, dtype=int)
    >>> weigh_situations(scores, np.array([0, 1]), nowhere)["reversed"].round(2).tolist()
    [0.25, 4.0]
    """
    n, m = log_scores.shape
    counts = np.zeros((int(environments.max()) + 1, m))
    np.add.at(counts, (environments, labels), 1.0)
    f = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))[environments]  # [N, m]
    p = np.where(f > 0, np.maximum(np.exp(log_scores), FLOOR * m * f), 0.0)
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(n)
    own, frequency = p[rows, labels], f[rows, labels]
    even = frequency / own
    # Where an environment has one label, both others are 0, and nothing can be reversed.
    others = np.where(frequency < 1, (1 - own) / np.where(frequency < 1, 1 - frequency, 1.0), 1.0)
    return {"as they are": np.ones(n), "even": even, "reversed": others * even}


def draw_rows(labels: Ints, environments: Ints, at_most: int, seed: int) -> Ints:
    """All rows, or so many at random, every (label, environment) by its share."""
    n = len(labels)
    if n <= at_most:
        return np.arange(n)
    shuffled = np.random.default_rng([seed, 0xB42]).permutation(n)
    cell = environments * (int(labels.max()) + 1) + labels
    order = shuffled[np.argsort(cell[shuffled], kind="stable")]
    return np.sort(order[np.linspace(0, n - 1, at_most).round().astype(np.int64)])


def _deal(cell: Ints, n_folds: int, seed: int) -> Ints:
    """A fold for each example, with its share of every cell."""
    shuffled = np.random.default_rng([seed, 0xF01D]).permutation(len(cell))
    folds = np.empty(len(cell), dtype=np.int64)
    folds[shuffled[np.argsort(cell[shuffled], kind="stable")]] = np.arange(len(cell)) % n_folds
    return folds


def _group_environments(environments: Ints, at_most: int) -> Ints:
    """Environments to be left out together [n], groups of similar size."""
    codes, place, sizes = np.unique(environments, return_inverse=True, return_counts=True)
    totals, group = np.zeros(min(at_most, len(codes))), np.empty(len(codes), dtype=np.int64)
    for own in np.argsort(-sizes, kind="stable"):
        group[own] = totals.argmin()
        totals[group[own]] += sizes[own]
    return group[place]


def _test_both(judges: Sequence[Judge], y: Ints, weights: Floats, folds: Ints) -> Floats:
    """How right each example is called [2, n], by plain and balanced training without its fold.

    The mean over the judges: 0, 1 or between.
    """
    right = np.zeros((2, len(y)))
    for fold in range(int(folds.max()) + 1):
        train, test = folds != fold, folds == fold
        for place, mass in enumerate((np.ones(len(y)), weights)):
            use = train & (mass > 0)
            if len(np.unique(y[use])) < 2:
                right[place, test] = float(len(np.unique(y[use])) == 1) * (y[test] == y[use][:1])
                continue
            called = [judge.call(y, mass, use, test) for judge in judges]
            right[place, test] = np.mean([own == y[test] for own in called], axis=0)
    return right


def _mean(values: Floats, shares: Floats) -> tuple[float, float]:
    """A weighted mean and its standard error (delta method)."""
    mean = float(shares @ values)
    return mean, float(np.sqrt(np.square(shares * (values - mean)).sum()))


def _mean_over(values: Floats, groups: Ints) -> tuple[float, float]:
    """The mean over groups, with an error for the sampling within them and their spread."""
    parts = [values[groups == group] for group in np.unique(groups)]
    means = np.array([part.mean() for part in parts])
    sampling = np.mean([part.var() / len(part) for part in parts]) / len(parts)
    spread = means.var(ddof=1) / len(parts)
    return float(means.mean()), float(np.sqrt(max(sampling, spread)))
