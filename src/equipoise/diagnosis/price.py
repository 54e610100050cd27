"""Both sides of the bargain: accuracy that balanced training costs, and accuracy that it saves.

Small classifiers are trained plainly and with the balancing weights, and tested on examples
they have not seen. Reweighting the test by the scores p(y | z, e) shows three situations: the
link of covariate and label as it is, without any link (even), and reversed. The labels of an
environment keep their frequencies in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
#: Labels whose frequencies differ from even by more than this share of it are uneven.
UNEVEN = 0.5
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
        Accuracy lost where the link stays as it is: plain − balanced on held-out examples.
    left_out, left_out_error : float
        The same on environments left out of training; NaN with fewer than three.
    even_gain, even_gain_error : float
        Accuracy gained where the covariate predicts nothing: balanced − plain.
    protection, protection_error : float
        Accuracy gained where the link is reversed.
    kept_price, kept_price_error, kept_protection, kept_protection_error : float
        The same of balanced weights times the label's frequency in its environment, so that rare
        labels stay rare; NaN where labels are about even.
    """

    situations: pd.DataFrame
    price: float
    price_error: float
    left_out: float
    left_out_error: float
    even_gain: float
    even_gain_error: float
    protection: float
    protection_error: float
    kept_price: float = np.nan
    kept_price_error: float = np.nan
    kept_protection: float = np.nan
    kept_protection_error: float = np.nan


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
    frequencies = find_frequencies(y, e, log_scores.shape[1])[e]  # [n, m]
    masses = [np.ones(len(y)), w]
    if np.abs(frequencies * (frequencies > 0).sum(axis=1, keepdims=True) - 1).max() > UNEVEN:
        masses.append(w * frequencies[np.arange(len(y)), y])
    with threadpool_limits(1):
        judges = make_judges(x[rows], y, None if curves is None else curves[rows], seed)
        n_folds = N_FOLDS_OF_IMAGES if is_image else N_FOLDS
        folds = _deal(e * (int(y.max()) + 1) + y, n_folds, seed)
        plain, balanced, *kept = _test_each(judges, y, masses, folds)  # [n] each
        places = _group_environments(e, MAX_LEFT_OUT_OF_IMAGES if is_image else MAX_LEFT_OUT)
        apart = _test_each(judges, y, masses[:2], places) if places.max() > 1 else None
    table, gains, kept_gains = {}, {}, {}
    for situation, mass in weigh_situations(log_scores[rows], y, e).items():
        shares = mass / mass.sum()
        one_label = 100 * np.bincount(y, weights=shares).max()
        table[situation] = *_mean(100 * plain, shares), *_mean(100 * balanced, shares), one_label
        gains[situation] = _mean(100 * (balanced - plain), shares)
        kept_gains[situation] = [_mean(100 * (own - plain), shares) for own in kept]
    columns = ["plain", "plain_error", "balanced", "balanced_error", "one_label"]
    lost, error = gains["as they are"]
    left_out = (np.nan, np.nan)
    if apart is not None:
        left_out = _mean_over(100 * (apart[0] - apart[1]), places)
    found = Bargain(
        pd.DataFrame.from_dict(table, orient="index", columns=columns),
        -lost,
        error,
        *left_out,
        *gains["even"],
        *gains["reversed"],
    )
    if not kept:
        return found
    (lost, error), (gained, error_of_gain) = (
        kept_gains[situation][0] for situation in ("as they are", "reversed")
    )
    return replace(
        found,
        kept_price=-lost,
        kept_price_error=error,
        kept_protection=gained,
        kept_protection_error=error_of_gain,
    )


def find_frequencies(labels: Ints, environments: Ints, n_labels: int) -> Floats:
    """How often each label occurs in each environment, as a share [E, m]."""
    counts = np.zeros((int(environments.max()) + 1, n_labels))
    np.add.at(counts, (environments, labels), 1.0)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0))


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
    f = find_frequencies(labels, environments, m)[environments]  # [N, m]
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


def _test_each(
    judges: Sequence[Judge], y: Ints, masses: Sequence[Floats], folds: Ints
) -> list[Floats]:
    """How right each example is called [n], by training with each of the weights without its fold.

    The mean over the judges: 0, 1 or between.
    """
    right = [np.zeros(len(y)) for _ in masses]
    for fold in range(int(folds.max()) + 1):
        train, test = folds != fold, folds == fold
        for own, mass in zip(right, masses, strict=True):
            use = train & (mass > 0)
            if len(np.unique(y[use])) < 2:
                own[test] = float(len(np.unique(y[use])) == 1) * (y[test] == y[use][:1])
                continue
            called = [judge.call(y, mass, use, test) for judge in judges]
            own[test] = np.mean([names == y[test] for names in called], axis=0)
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
