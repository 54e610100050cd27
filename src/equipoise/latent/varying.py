"""What varies: the part of the features whose link with the label changes between environments.

Content that belongs to a label looks the same wherever the label occurs, up to a constant that
an environment adds. So the cell means of a feature are label effect + environment effect, and
an interaction of the two says that its link with the label changes. The size of the
interaction is compared with data sets in which the signs of the residuals are random.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from equipoise.latent.cells import LEVEL, Cells, Floats, Ints
from equipoise.latent.columns import Features
from equipoise.latent.curves import CURVED, find_strongest_curve, make_curved, take_curves
from equipoise.latent.interaction import (
    DRAWS,
    FlipTest,
    InteractionTests,
    find_residual,
    find_whole,
)
from equipoise.latent.search import Search


@dataclass(frozen=True)
class VaryingPart:
    """Coordinates whose link with the label varies, as functions of the features.

    Attributes
    ----------
    linear : float array [q, k]
        Coordinates that are features or directions: values @ linear.
    pairs : tuple of (int, int)
        Coordinates that are squares or products of two features.
    named : tuple of str
        What each coordinate is: "feature", "direction", "square" or "product".
    p_value : float
        Of the joint test that nothing varies.
    table : DataFrame
        Each test that was made: step, test, statistic, expected under the null, p_value, found.
    """

    linear: Floats
    pairs: tuple[tuple[int, int], ...]
    named: tuple[str, ...]
    p_value: float
    table: pd.DataFrame = field(repr=False)

    def __len__(self) -> int:
        return len(self.named)

    def coordinates(self, features: Floats) -> Floats:
        """The varying part [N, k] of features [N, q]."""
        curved = [features[:, a] * features[:, b] for a, b in self.pairs]
        return np.concatenate([features @ self.linear, *(c[:, None] for c in curved)], axis=1)


def find_varying(
    features: Features,
    labels: Ints,
    environments: Ints,
    *,
    rng: np.random.Generator,
    rotated: bool = False,
    level: float = LEVEL,
) -> VaryingPart:
    """Find the coordinates of the features whose link with the label varies.

    Where few sources vary and they show all of it, they are taken as they are. What is spread
    over many is taken as directions, so that the content of these columns is left alone.
    Squares and products are considered where features themselves show nothing, or little.

    Parameters
    ----------
    features : Features
        Standardised features [N, q].
    labels, environments : int array [N]
    rng : np.random.Generator
        Of the flipped signs.
    rotated : bool
        The axes mean nothing, as in a latent space: take directions only.
    level : float
        Of the test that nothing varies.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y, e = rng.integers(2, size=2000), rng.integers(2, size=2000)
    >>> scanner = np.where(rng.random(2000) < np.where(e == 0, 0.9, 0.6), y, 1 - y)
    >>> values = np.stack([scanner, y], axis=1) + 0.3 * rng.normal(size=(2000, 2))
    >>> features = Features(values - values.mean(0), np.arange(2), np.ones(2, dtype=bool))
    >>> part = find_varying(features, y, e, rng=rng)
    >>> len(part), part.linear.tolist()
    (1, [[1.0], [0.0]])
    """
    cells = Cells.of(labels, environments)
    q = features.values.shape[1]
    if cells.freedom < 1:
        return _nothing(q, np.nan)
    residual = find_residual(features, cells)
    curved, pairs = make_curved(residual, features, cells)
    whole = find_whole(features.values, residual, cells)
    tests = InteractionTests(residual, cells, curved, sum(a != b for a, b in pairs), whole)
    first = tests.run(rng)
    steps = [("nothing varies", first)]
    if first.p_value > level:
        return _nothing(q, first.p_value, steps)
    straight = [name for name in tests.statistics if name not in CURVED]
    best = first.best(list(tests.statistics))
    search = Search(features, residual, cells, rng, whole)
    # What shows in lines has varying curves as well. So a curve is taken where lines show nothing,
    # or where it is clearest, chance reaches the lines at times, and it shows more than they do.
    by_lines = first.test_jointly(straight)
    if (
        curved is not None
        and best in CURVED
        and by_lines > 1 / DRAWS
        and (by_lines > level or search.shows_less(curved, pairs, best))
    ):
        strongest = find_strongest_curve(cells, curved, pairs, best)
        chosen = [strongest] if rotated else take_curves(curved, strongest, cells, rng)
        found = tuple(pairs[j] for j in chosen)
        named = tuple("square" if a == b else "product" for a, b in found)
        return VaryingPart(np.zeros((q, 0)), found, named, first.p_value, _tabulate(steps))
    linear = search.find_linear(tests, first, rotated)
    return _linear(linear, search.n_sources, first.p_value, steps + search.steps)


def _nothing(
    q: int, p_value: float, steps: list[tuple[str, FlipTest]] | None = None
) -> VaryingPart:
    return VaryingPart(np.zeros((q, 0)), (), (), p_value, _tabulate(steps or []))


def _linear(
    linear: Floats, n_sources: int, p_value: float, steps: list[tuple[str, FlipTest]]
) -> VaryingPart:
    named = ("feature",) * n_sources + ("direction",) * (linear.shape[1] - n_sources)
    return VaryingPart(linear, (), named, p_value, _tabulate(steps))


def _tabulate(steps: list[tuple[str, FlipTest]]) -> pd.DataFrame:
    rows = [
        (title, name, test.observed[name], test.expected[name], test.p_values[name], test.p_value)
        for title, test in steps
        for name in test.observed
    ]
    columns = ["hypothesis", "test", "statistic", "expected", "p_value", "joint_p_value"]
    return pd.DataFrame(rows, columns=columns)
