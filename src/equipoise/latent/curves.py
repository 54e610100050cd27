"""Squares and products of features, for covariates that show in a spread or in pairs of columns."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import kurtosis

from equipoise.latent.cells import LEVEL, NEGLIGIBLE, NEXT_LEVEL, Cells, Floats
from equipoise.latent.columns import FLAT, Features

CURVED = ("squares", "products")
#: Products of pairs are tried for at most so many features.
MAX_PAIRED = 40
#: Squares and products are taken one after the other, up to so many.
MAX_CURVES = 16


def make_curved(
    residual: Floats, features: Features, cells: Cells
) -> tuple[Floats | None, list[tuple[int, int]]]:
    """Residuals of squares and products of residuals, and their pairs.

    Squares are of numbers without separate values, whose spread says no more than their mean.
    Products are of numbers and of indicators, but for those of one category: a covariate may
    show in two columns together and in neither alone.
    """
    continuous, source = features.continuous, features.source
    # A column that labels and environments determine has no residual whose rank means anything.
    own = residual.any(axis=0)
    numbers = np.flatnonzero(continuous & own)
    spread_out = numbers[kurtosis(features.values[:, numbers]) >= FLAT]
    pairs = [(int(j), int(j)) for j in spread_out]
    for paired in (np.flatnonzero(own), numbers):
        if len(paired) <= MAX_PAIRED:
            pairs += [
                (int(a), int(b))
                for i, a in enumerate(paired)
                for b in paired[i + 1 :]
                if source[a] != source[b]
            ]
            break
    if not pairs:
        return None, []
    n = len(residual)
    scores = ndtri((np.arange(n) + 0.5) / n)
    values = np.empty((n, len(pairs)))
    for column, (a, b) in enumerate(pairs):
        product = residual[:, a] * residual[:, b]
        if continuous[a] or continuous[b]:
            values[np.argsort(product, kind="stable"), column] = scores
        else:  # few values, whose ranks would tell the cells apart
            values[:, column] = product / max(float(product.std()), 1e-12)
    return cells.residual(values), pairs


def find_strongest_curve(
    cells: Cells, curved: Floats, pairs: list[tuple[int, int]], name: str
) -> int:
    """The place of the strongest square, or product."""
    own = np.array([(a == b) == (name == "squares") for a, b in pairs])
    return int(np.where(own, cells.strengths(curved), -1.0).argmax())


def take_curves(
    curved: Floats, strongest: int, cells: Cells, rng: np.random.Generator
) -> list[int]:
    """The strongest square or product, and others that show more of what varies.

    A covariate that acts by spread may do so in many columns. Each that is taken varies by
    itself, and also once it is freed of those before it: columns that are merely correlated
    with what varies fail the one, columns that repeat it the other.
    """
    alone, spread = cells.strengths(curved), (curved**2).mean(axis=0) + 1e-12
    varies = alone > cells.largest_by_chance(curved, rng, LEVEL)
    enough = NEGLIGIBLE * alone[strongest]
    within, taken = np.sqrt(cells.weights)[:, None] * cells.within(curved), [strongest]
    while len(taken) < MAX_CURVES:
        others = np.flatnonzero(varies & ~np.isin(np.arange(len(varies)), taken))
        slopes = np.linalg.lstsq(within[:, taken], within[:, others], rcond=None)[0]
        rest = curved[:, others] - curved[:, taken] @ slopes
        in_units = (cells.interaction(rest) ** 2).sum(axis=0) / spread[others]
        others, rest = others[in_units > enough], rest[:, in_units > enough]
        if not len(others):
            break
        strengths = cells.strengths(rest)
        if strengths.max() <= cells.largest_by_chance(rest, rng, NEXT_LEVEL):
            break
        taken.append(int(others[strengths.argmax()]))
    return taken
