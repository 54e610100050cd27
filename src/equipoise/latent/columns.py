"""Columns of a table -> features on one scale, whatever their units, tails, order and coding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.extmath import randomized_svd

from equipoise.latent.cells import Cells

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: A column with at most this many values is a category, one feature for each value.
MAX_LEVELS = 10
#: A category's value needs this many examples to have a feature of its own.
MIN_OF_LEVEL = 5
MIN_SHARE_OF_LEVEL = 0.002
_KNOTS = 256
_FAR = 5.0  # standard deviations
#: Spreads within cells that differ more than by this factor are of different units.
OTHER_UNIT = 3.0


@dataclass(frozen=True)
class Features:
    """Standardised features [N, q], the source each comes from, and which are continuous.

    A source is a column, or the columns of one category that was given one-hot.
    """

    values: Floats
    source: Ints
    continuous: Bools

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class ColumnEncoding:
    """How columns become features: normal scores of numbers, indicators of categories.

    Normal scores replace a number by the normal quantile of its rank. Heavy tails and units
    then do not matter. A column may first be scaled and shifted by environment, so that a site
    with another unit, or whose instrument reads higher, is not taken for a varying link.

    Attributes
    ----------
    column, source : int array [q]
        The column of X behind each feature, and its source.
    level : float array [q]
        The value an indicator stands for; NaN for a number.
    knots, heights : float array [q, 256]
        The map of a number to its normal score; empty rows for indicators.
    gain, shift : float array [E, q]
        A number is divided by the one, less the other, before its score.
    mean, scale : float array [q]
    """

    column: Ints
    source: Ints
    level: Floats
    knots: Floats
    heights: Floats
    gain: Floats
    shift: Floats
    mean: Floats
    scale: Floats

    @property
    def continuous(self) -> Bools:
        return np.isnan(self.level)

    def encode(self, x: Floats, environments: Ints) -> Features:
        """Features of examples x [N, p]."""
        values = np.empty((len(x), len(self.column)))
        for j, column in enumerate(self.column):
            if np.isnan(self.level[j]):
                moved = x[:, column] / self.gain[environments, j] - self.shift[environments, j]
                values[:, j] = np.interp(moved, self.knots[j], self.heights[j])
            else:
                values[:, j] = x[:, column] == self.level[j]
        return Features((values - self.mean) / self.scale, self.source, self.continuous)

    def state(self) -> dict[str, NDArray]:
        """Everything as arrays, for `from_state`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_state(cls, state: dict[str, NDArray]) -> ColumnEncoding:
        return cls(**{name: state[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class PixelComponents:
    """The leading principal components of flat images."""

    origin: NDArray[np.float32]  # [d]
    axes: NDArray[np.float32]  # [d, k]

    @classmethod
    def of(cls, x: NDArray, n_components: int = 40) -> PixelComponents:
        """Components of x [N, d]; as many as there are, if fewer."""
        origin = x.mean(axis=0)
        count = min(n_components, *x.shape)
        _, sizes, axes = randomized_svd(x - origin, count, n_iter=3, random_state=0)
        # Below this there are rounding errors only.
        kept = sizes > 1e-5 * max(sizes[0], np.abs(origin).max() * np.sqrt(len(x)))
        if not kept.any():
            raise ValueError("all images are the same: there is nothing to balance on")
        return cls(origin, np.ascontiguousarray(axes[kept].T))

    def project(self, x: NDArray) -> Floats:
        """Coordinates [N, k] of further images."""
        return np.asarray((x - self.origin) @ self.axes, dtype=np.float64)


def encode_components(z: Floats, n_environments: int) -> ColumnEncoding:
    """Principal components as features on one common scale, cut off far out.

    Only directions mean something there, and normal scores would bend them. Components keep
    their variances, so that leading ones are told from the rest.
    """
    n = z.shape[1]
    scale = max(float(z.std(axis=0).max()), 1e-12)
    heights = np.linspace(-_FAR, _FAR, _KNOTS) * np.ones((n, 1))
    return ColumnEncoding(
        np.arange(n),
        np.arange(n),
        np.full(n, np.nan),
        z.mean(axis=0)[:, None] + scale * heights,
        heights,
        np.ones((n_environments, n)),
        np.zeros((n_environments, n)),
        np.zeros(n),
        np.ones(n),
    )


def encode_columns(x: Floats, labels: Ints, environments: Ints) -> ColumnEncoding:
    """Learn how the columns of x [N, p] become features; constant columns have none.

    >>> x = np.array([[0.1, 1.0], [0.5, 2.0], [90.0, 1.0], [0.2, 2.0]] * 5)
    >>> x[:, 0] += np.arange(20)
    >>> encoding = encode_columns(x, np.tile([0, 1], 10), np.repeat([0, 1], 10))
    >>> encoding.column.tolist(), encoding.continuous.tolist()
    ([0, 1], [True, False])
    """
    n, p = x.shape
    sources, cells = _group_one_hot(x), Cells.of(labels, environments)
    rows: list[tuple[int, float, Floats, Floats, Floats, Floats]] = []
    empty, nowhere = np.zeros(_KNOTS), np.zeros(cells.n_environments)
    for column in range(p):
        values, counts = np.unique(x[:, column], return_counts=True)
        if len(values) < 2:
            continue
        if len(values) > min(MAX_LEVELS, n // 2):
            gain, shift = _align(x[:, column], counts, cells)
            knots, heights = _score_normally(
                x[:, column] / gain[environments] - shift[environments]
            )
            rows.append((column, np.nan, knots, heights, gain, shift))
            continue
        enough = max(MIN_OF_LEVEL, MIN_SHARE_OF_LEVEL * n)
        # The second of two values is the first one's complement.
        for value, count in list(zip(values, counts, strict=True))[len(values) == 2 :]:
            if min(count, n - count) >= enough:
                rows.append((column, float(value), empty, empty, nowhere + 1, nowhere))
    if not rows:
        raise ValueError("every column is constant: there is nothing to balance on")
    own = np.array([row[0] for row in rows], dtype=np.int64)
    q = len(own)
    raw = ColumnEncoding(
        own,
        sources[own],
        np.array([row[1] for row in rows]),
        np.stack([row[2] for row in rows]),
        np.stack([row[3] for row in rows]),
        np.stack([row[4] for row in rows], axis=1),
        np.stack([row[5] for row in rows], axis=1),
        np.zeros(q),
        np.ones(q),
    )
    values = raw.encode(x, environments).values
    scale = values.std(axis=0)
    return replace(raw, mean=values.mean(axis=0), scale=np.where(scale > 0, scale, 1.0))


def _score_normally(values: Floats) -> tuple[Floats, Floats]:
    """Knots and heights [256] of the map to normal scores; ties share their mean rank."""
    distinct, counts = np.unique(values, return_counts=True)
    ranks = np.cumsum(counts) - 0.5 * counts
    heights = ndtri(ranks / len(values))
    if len(distinct) > _KNOTS:
        # Even in rank, with every extreme kept.
        chosen = np.unique(
            np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], _KNOTS)).clip(
                0, len(distinct) - 1
            )
        )
        distinct, heights = distinct[chosen], heights[chosen]
    pad = _KNOTS - len(distinct)
    return (
        np.pad(distinct, (0, pad), mode="edge"),
        np.pad(heights, (0, pad), mode="edge"),
    )


def _align(values: Floats, counts: Ints, cells: Cells) -> tuple[Floats, Floats]:
    """What each environment multiplies a column by, and adds; 1 and 0 where that does not help.

    A constant added in an environment, or another unit, is no label × environment interaction,
    but it is one on the scale of ranks, in spread too. So the column is shifted, or scaled and
    shifted, if that makes the interaction, that of its square included, smaller. Where spreads
    differ by a large factor it is scaled in any case.
    """
    one, zero = np.ones(cells.n_environments), np.zeros(cells.n_environments)
    if counts.max() > 0.02 * len(values) + 1:  # a value of its own, such as 0: no shift keeps it
        return one, zero
    scaled = _find_gain(values, cells)
    if scaled[0].max() > OTHER_UNIT * scaled[0].min():
        return scaled
    options = [(one, zero), (one, _find_shift(values, cells)), scaled]
    strengths = []
    for gain, shift in options:
        moved = values / gain[cells.environments] - shift[cells.environments]
        residual = cells.residual(np.interp(moved, *_score_normally(moved))[:, None])
        squares = cells.residual(residual**2)
        strengths.append(
            _measure_interaction(residual, cells) + _measure_interaction(squares, cells)
        )
    return options[int(np.argmin(strengths))]


def _find_shift(values: Floats, cells: Cells) -> Floats:
    low, high = np.quantile(values, [0.02, 0.98])
    return cells.environment_effects(np.clip(values, low, high)[:, None])[:, 0]


def _find_gain(values: Floats, cells: Cells) -> tuple[Floats, Floats]:
    """Spread of each environment within its cells, relative to their mean, and the shift then."""
    clipped = values.copy()
    for environment in range(cells.n_environments):
        own = cells.environments == environment
        clipped[own] = np.clip(values[own], *np.quantile(values[own], [0.02, 0.98]))
    within = cells.within(clipped[:, None])[:, 0]
    places = cells.environments
    spread = np.sqrt(np.bincount(places, within**2) / np.bincount(places))
    gain = np.where(spread > 0, spread, 1.0)
    gain /= np.exp(np.log(gain).mean())
    return gain, cells.environment_effects((clipped / gain[places])[:, None])[:, 0]


def _measure_interaction(residual: Floats, cells: Cells) -> float:
    return float((cells.interaction(residual) ** 2).sum() / ((residual**2).mean() + 1e-12))


def _group_one_hot(x: Floats) -> Ints:
    """A source for each column: columns of two values that exclude each other share theirs."""
    p = x.shape[1]
    sources = np.arange(p)
    binary = [j for j in range(p) if _is_binary(x[:, j])]
    if len(binary) < 3:
        return sources
    on = np.stack([x[:, j] == x[:, j].max() for j in binary], axis=1).astype(np.float64)
    together = on.T @ on
    taken = np.zeros(len(binary), dtype=bool)
    for first in range(len(binary)):
        group = np.flatnonzero((together[first] == 0) & ~taken)
        group = np.append(group, first)
        if not taken[first] and len(group) > 2 and (on[:, group].sum(axis=1) == 1).all():
            sources[[binary[j] for j in group]] = binary[first]
            taken[group] = True
    return sources


def _is_binary(values: Floats) -> bool:
    low, high = values.min(), values.max()
    return bool(low < high and ((values == low) | (values == high)).all())
