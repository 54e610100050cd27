"""Columns of a table -> features on one scale, whatever their units, tails, order and coding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import kurtosis
from sklearn.utils.extmath import randomized_svd

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

#: A column with at most this many values is a category, one feature for each value.
MAX_LEVELS = 20
#: A category's value needs this many examples to have a feature of its own.
MIN_OF_LEVEL = 5
MIN_SHARE_OF_LEVEL = 0.002
_KNOTS = 128
_FAR = 5.0  # standard deviations
#: Excess kurtosis of a uniform distribution: what is flatter has separate values.
FLAT = -1.2
#: Of the tests that columns have the same values in every environment.
LEVEL_OF_SITES = 0.001
#: Rounds in which the scales of environments with other label frequencies are made alike.
ROUNDS = 8


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
    """How columns become features: scores of numbers, indicators of categories.

    Where a column has long tails, a number becomes the normal quantile of its rank. Where some
    column differs between environments, ranks are within an environment: a site with another
    unit, or whose instrument reads higher or bends, is not taken for a varying link.

    Attributes
    ----------
    column, source : int array [q]
        The column of X behind each feature, and its source.
    level : float array [q]
        The value an indicator stands for; NaN for a number.
    knots, heights : float array [E, q, 128]
        An environment's map of a number to its score, often the same for all; zeros for
        indicators.
    mean, scale : float array [q]
    """

    column: Ints
    source: Ints
    level: Floats
    knots: Floats
    heights: Floats
    mean: Floats
    scale: Floats

    @property
    def continuous(self) -> Bools:
        return np.isnan(self.level)

    def encode(self, x: Floats, environments: Ints) -> Features:
        """Features of examples x [N, p]."""
        values = np.asarray(x[:, self.column] == self.level, dtype=np.float64)
        for environment in np.unique(environments):
            own = np.flatnonzero(environments == environment)
            for j in np.flatnonzero(self.continuous):
                knots, heights = self.knots[environment, j], self.heights[environment, j]
                values[own, j] = np.interp(x[own, self.column[j]], knots, heights)
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
    heights = np.linspace(-_FAR, _FAR, _KNOTS) * np.ones((n_environments, n, 1))
    return ColumnEncoding(
        np.arange(n),
        np.arange(n),
        np.full(n, np.nan),
        z.mean(axis=0)[:, None] + scale * heights,
        heights,
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
    sources = _group_one_hot(x)
    rows: list[tuple[int, float]] = []
    for column in range(p):
        values, counts = np.unique(x[:, column], return_counts=True)
        if len(values) < 2:
            continue
        if len(values) > min(MAX_LEVELS, n // 2):
            rows.append((column, np.nan))
            continue
        enough = max(MIN_OF_LEVEL, MIN_SHARE_OF_LEVEL * n)
        # The second of two values is the first one's complement.
        for value, count in list(zip(values, counts, strict=True))[len(values) == 2 :]:
            if min(count, n - count) >= enough:
                rows.append((column, float(value)))
    if not rows:
        raise ValueError("every column is constant: there is nothing to balance on")
    own, level = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    sites, numbers = _Sites.of(labels, environments), np.flatnonzero(np.isnan(level))
    q, limit = len(own), LEVEL_OF_SITES / max(1, len(numbers))
    # All columns or none: what a map gets wrong is the same in columns that are nearly the same.
    differ = any(sites.differ(x[:, own[j]], limit) for j in numbers)
    knots, heights = np.zeros((2, len(sites.sizes), q, _KNOTS))
    for j in numbers:
        values = x[:, own[j]]
        scores = sites.align(values) if differ else _scale(values)
        for environment in np.unique(environments):
            here = environments == environment if differ else slice(None)
            knots[environment, j], heights[environment, j] = _thin(values[here], scores[here])
    raw = ColumnEncoding(own, sources[own], level, knots, heights, np.zeros(q), np.ones(q))
    values = raw.encode(x, environments).values
    scale = values.std(axis=0)
    return replace(raw, mean=values.mean(axis=0), scale=np.where(scale > 0, scale, 1.0))


@dataclass(frozen=True)
class _Sites:
    """How environments differ in labels, and so in what values are expected of a column."""

    labels: Ints
    environments: Ints
    sizes: Floats  # [E]
    weights: Floats  # [E, m] that give all examples an environment's labels

    @classmethod
    def of(cls, labels: Ints, environments: Ints) -> _Sites:
        counts = np.zeros((int(environments.max()) + 1, int(labels.max()) + 1))
        np.add.at(counts, (environments, labels), 1.0)
        sizes = counts.sum(axis=1)
        weights = counts / np.maximum(sizes, 1.0)[:, None]
        weights /= np.maximum(counts.sum(axis=0) / len(labels), 1e-12)
        return cls(labels, environments, sizes, weights)

    def differ(self, values: Floats, level: float) -> bool:
        """Whether some environment has other values than all examples weighted to its labels.

        A Kolmogorov-Smirnov test of each environment, by its limiting distribution.
        """
        rank = np.unique(values, return_inverse=True)[1]
        limit = np.sqrt(-0.5 * np.log(0.5 * level / (self.sizes > 0).sum()))
        for environment in np.flatnonzero(self.sizes):
            own = self.environments == environment
            expected = _share_below(rank, self.weights[environment, self.labels])[own]
            seen = _share_below(np.unique(values[own], return_inverse=True)[1])
            n = self.sizes[environment]  # all examples include its own
            scale = np.sqrt(n / max(1e-12, 1 - n / self.sizes.sum()))
            if np.abs(seen - expected).max() * scale > limit:
                return True
        return False

    def align(self, values: Floats) -> Floats:
        """Scores [N] of ranks within environments.

        A rank becomes the score that has it among all examples, weighted to the environment's
        labels.
        """
        places = [np.flatnonzero(self.environments == e) for e in range(len(self.sizes))]
        ranks = np.empty(len(values))
        for own in places:
            ranks[own] = _share_below(np.unique(values[own], return_inverse=True)[1])
        even = (np.arange(len(values)) + 0.5) / len(values)
        scores = np.interp(ranks, even, np.sort(_scale(values)))
        if np.ptp(self.weights[self.sizes > 0], axis=0).max() < 0.01:
            return np.asarray(scores)
        for _ in range(ROUNDS):
            order = np.argsort(scores, kind="stable")
            moved = np.empty_like(scores)
            for environment, own in enumerate(places):
                mass = self.weights[environment, self.labels[order]]
                shares = (np.cumsum(mass) - 0.5 * mass) / max(mass.sum(), 1e-12)
                moved[own] = np.interp(ranks[own], shares, scores[order])
            done = np.abs(moved - scores).mean() < 0.002
            scores = moved
            if done:
                break
        return np.asarray(scores)


def _scale(values: Floats) -> Floats:
    """Normal scores, which draw long tails in; standardised values where tails are short.

    Normal scores would close the gap between separate groups of values.
    """
    small = values / np.abs(values).max()  # whose fourth powers are numbers
    if kurtosis(small) < 0:
        return np.asarray((small - small.mean()) / small.std())
    return np.asarray(ndtri(_share_below(np.unique(values, return_inverse=True)[1])))


def _share_below(rank: Ints, weights: Floats | None = None) -> Floats:
    """The weighted share of examples of lower rank [N], and half of those of the same."""
    mass = np.bincount(rank, weights=weights)
    return np.asarray(((np.cumsum(mass) - 0.5 * mass) / max(mass.sum(), 1e-12))[rank])


def _thin(values: Floats, scores: Floats) -> tuple[Floats, Floats]:
    """At most 128 knots and heights of the map of values to scores, even in rank."""
    distinct, first = np.unique(values, return_index=True)
    chosen = np.linspace(0, len(distinct) - 1, min(_KNOTS, len(distinct))).round().astype(int)
    pad = _KNOTS - len(chosen)
    return (
        np.pad(distinct[chosen], (0, pad), mode="edge"),
        np.pad(scores[first[chosen]], (0, pad), mode="edge"),
    )


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
