"""What varies: the part of the features whose link with the label changes between environments.

Content that belongs to a label looks the same wherever the label occurs, up to a constant that
an environment adds. So the cell means of a feature are label effect + environment effect, and
an interaction of the two says that its link with the label changes. The size of the
interaction is compared with data sets in which the signs of the residuals are random.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy.stats import kurtosis

from equipoise.latent.cells import LEVEL, NEGLIGIBLE, NEXT_LEVEL, Cells, Floats, Ints
from equipoise.latent.columns import FLAT, Features
from equipoise.latent.curves import CURVED, find_strongest_curve, make_curved, take_curves
from equipoise.latent.interaction import (
    DRAWS,
    FlipTest,
    InteractionTests,
    find_residual,
    find_whitening,
    find_whole,
)
from equipoise.latent.mixture import COMPONENTS, ROWS, fit_kinds, iterate_independent

#: Up to this many sources are taken as they are; what is spread over more is a direction.
MAX_SOURCES = 3
#: Independent components must show this share of the strongest direction to be taken instead.
ENOUGH = 0.7
MAX_DIMENSIONS = 64
#: A mixture of kinds is tried with at most so many, and a component for so many examples.
MAX_KINDS, ROWS_OF_COMPONENT = 10, 20
WIDE = ("direction of", "sum of")


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
    search = _Search(features, residual, cells, rng, whole)
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
    if not rotated:
        own = search.take_sources(tests)
        if own is not None:
            steps += search.steps
            return _linear(np.eye(q)[:, own], len(own), first.p_value, steps)
    search.take_directions(tests, first, rotated)
    spread = not (rotated or search.n_sources or search.is_independent)
    if spread and cells.freedom > 1:
        search.take_kinds()
    steps += search.steps
    return _linear(np.stack(search.found, 1), search.n_sources, first.p_value, steps)


class _Search:
    """Sources and directions one after the other, each taken out before the next is sought."""

    def __init__(
        self,
        features: Features,
        residual: Floats,
        cells: Cells,
        rng: np.random.Generator,
        whole: Floats,
    ) -> None:
        self.whole = self.rest = whole
        self.features, self.residual, self.cells, self.rng = features, residual, cells, rng
        self.steps: list[tuple[str, FlipTest]] = []
        self.found: list[Floats] = []  # [q] each
        self.n_sources = 0
        self.is_independent = False

    def take_sources(self, tests: InteractionTests) -> list[int] | None:
        """Features of up to three sources that vary, if the other features do not; else None.

        The others are tested as they are. Freed of the sources they would vary wherever they
        are correlated with them.
        """
        strengths = tests.strengths()
        varying = set(self.features.source[strengths > self._by_chance(tests)])
        if not 1 <= len(varying) <= MAX_SOURCES:
            return None
        member = np.isin(self.features.source, list(varying))
        if not member.all():
            whole = self.whole[:, ~member]
            others = InteractionTests(self.residual[:, ~member], self.cells, ordered_by=whole)
            test = others.run(self.rng)
            negligible = strengths[~member].max() < NEGLIGIBLE * strengths.max()
            if test.p_value <= NEXT_LEVEL and not negligible:
                return None
            self.steps.append((_besides(len(varying), "source"), test))
        order = {source: strengths[self.features.source == source].max() for source in varying}
        ranked = sorted(varying, key=lambda source: -order[source])
        return [int(j) for own in ranked for j in np.flatnonzero(self.features.source == own)]

    def find_independent(self, tests: InteractionTests, test: FlipTest) -> list[Floats]:
        """Two or more independent components of few values that vary; none if there are not.

        The strongest direction of two covariates whose links change oppositely is their
        difference: what it leaves varies no more, and still predicts the label. Covariates of
        few values are told apart by the shape of their distributions.
        """
        best: tuple[tuple[int, float], Floats] | None = None
        residual = tests.matrix[:, : tests.q]
        for axes in iterate_independent(self.rest, self.cells.weights):
            axes = axes[:, kurtosis(self.rest @ axes) < FLAT]
            if axes.shape[1] < 2:
                continue
            axes = self._unmix(axes)
            own = InteractionTests(residual @ axes, self.cells)
            axes = axes[:, own.strengths() > self._by_chance(own)]
            if axes.shape[1] < 2:
                continue
            sources = residual @ axes
            z = self.cells.interaction(sources) @ find_whitening(sources, self.cells.weights)
            share = float(np.linalg.norm(z, 2) ** 2 / _root_excess(test))
            rank = axes.shape[1], share
            if share >= ENOUGH and (best is None or rank > best[0]):
                best = rank, axes
        return [] if best is None else [self._complete(axis) for axis in best[1].T]

    def _unmix(self, axes: Floats) -> Floats:
        """The nearest axes of components that are uncorrelated within cells.

        What depends on the label is correlated overall, and components that are not hold a
        little of each other: a mark of the label would seem to vary beside a covariate.
        """
        within = self.cells.within(self.residual @ axes) * np.sqrt(self.cells.weights)[:, None]
        values, vectors = np.linalg.eigh(within.T @ within / len(within))
        return np.asarray(axes @ (vectors / np.sqrt(np.maximum(values, 1e-12))) @ vectors.T)

    def _complete(self, direction: Floats) -> Floats:
        """A direction of the rest as one of the features, of unit deviation."""
        if self.found:  # the rest is residual − found @ slopes, so the direction has both parts
            found = np.stack(self.found, axis=1)
            direction = direction - found @ (self._slopes(found) @ direction)
        return np.asarray(direction / (self.features.values @ direction).std())

    def take_directions(self, tests: InteractionTests, test: FlipTest, rotated: bool) -> None:
        """Categories first, then directions, until what is left does not vary."""
        q = len(self.features.source)
        limit, strongest = min(MAX_DIMENSIONS, q), _root_excess(test)
        independent: list[Floats] | None = None
        while True:
            strengths = tests.strengths()
            best = int(strengths.argmax())
            category = (
                not rotated
                and not self.features.continuous[best]
                and strengths[best] > self._by_chance(tests)
            )
            if category:
                source = np.flatnonzero(self.features.source == self.features.source[best])
                self.found += [np.eye(q)[j] for j in source]
                self.n_sources += len(source)
            else:
                if independent is None:
                    independent = self.find_independent(tests, test)
                    self.found += independent
                    self.is_independent = bool(independent)
                if not independent:
                    self.found.append(self._choose_direction(tests, test, rotated))
                independent = []
            left = self._take_out(np.stack(self.found, axis=1))
            if left is None or len(self.found) >= limit:
                return
            tests = left
            test = tests.run(self.rng)
            self.steps.append((_besides(len(self.found), "dimension"), test))
            if test.p_value > NEXT_LEVEL or _root_excess(test) < NEGLIGIBLE * strongest:
                return

    def shows_less(self, curved: Floats, pairs: list[tuple[int, int]], name: str) -> bool:
        """Whether directions and kinds show less of what varies than curves do.

        All are found in one half of the examples and compared in the other.
        """
        ahead = 0.0
        for (mine, here), (yours, there) in self._deal_halves():
            own, other = here.cells.residual(curved[mine]), there.cells.residual(curved[yours])
            strongest = find_strongest_curve(here.cells, own, pairs, name)
            taken = take_curves(own, strongest, here.cells, self.rng)
            kinds = here.find_kinds() if self.cells.freedom > 1 else None
            straight = [here.find_directions()] + ([] if kinds is None else [kinds])
            ahead += there.measure_excess(other[:, taken])
            ahead -= max(there.measure_excess(there.residual @ found) for found in straight)
        return ahead > 0

    def take_kinds(self) -> None:
        """The discriminants of a mixture of kinds instead, where they show more than directions.

        Both are found in one half of the examples and compared in the other.
        """
        ahead = 0.0
        for (_, here), (_, there) in self._deal_halves():
            kinds = here.find_kinds()
            if kinds is None:
                return
            ahead += there.measure_shown(there.residual @ kinds)
            ahead -= there.measure_shown(there.residual @ here.find_directions())
        found = self.find_kinds() if ahead > 0 else None
        if found is None:
            return
        self.found = list((found / (self.features.values @ found).std(axis=0)).T)
        left = self._take_out(found)
        if left is not None:
            self.steps.append((f"besides {found.shape[1] + 1} kinds", left.run(self.rng)))

    def find_directions(self) -> Floats:
        """Directions [q, k], found as if nothing else were there."""
        tests = InteractionTests(self.residual, self.cells, ordered_by=self.whole)
        self.take_directions(tests, tests.run(self.rng), rotated=False)
        return np.stack(self.found, axis=1)

    def _deal_halves(self) -> list[tuple[tuple[Ints, _Search], tuple[Ints, _Search]]]:
        """Two halves of the examples with their rows, once in each order; none if too small."""
        turned = self.rng.permutation(len(self.residual))
        rows = [np.sort(turned[part::2]) for part in (0, 1)]
        first, second = ((own, self._restrict(own)) for own in rows)
        if min(half.cells.freedom for _, half in (first, second)) < 1:
            return []
        return [(first, second), (second, first)]

    def find_kinds(self) -> Floats | None:
        """Discriminants [q, kinds - 1] of the mixture whose interaction exceeds chance most."""
        axes = self._find_axes()
        rows = np.linspace(0, len(self.whole) - 1, min(len(self.whole), ROWS)).astype(np.int64)
        x = self.whole[rows] @ axes
        if x.shape[1] < 2:
            return None
        cells = Cells.of(self.cells.labels[rows], self.cells.environments[rows])
        options = [axes @ fit_kinds(x, cells, n_kinds) for n_kinds in range(2, MAX_KINDS + 1)]
        return max(options, key=lambda kinds: self.measure_shown(self.residual @ kinds))

    def _restrict(self, rows: Ints) -> _Search:
        """The same search among some of the examples."""
        features = replace(self.features, values=self.features.values[rows])
        cells = Cells.of(self.cells.labels[rows], self.cells.environments[rows])
        residual = find_residual(features, cells)
        whole = find_whole(features.values, residual, cells)
        return _Search(features, residual, cells, self.rng, whole)

    def _find_axes(self) -> Floats:
        """Axes [q, k] of the leading components of the whole, fewer where examples are few."""
        values, vectors = np.linalg.eigh(self.whole.T @ self.whole / len(self.whole))
        most = min(COMPONENTS, len(self.whole) // ROWS_OF_COMPONENT)
        axes = vectors[:, values > 1e-6 * values[-1]][:, ::-1][:, :most]
        skewness = ((self.whole @ axes) ** 3).mean(axis=0)
        return np.asarray(axes * np.where(skewness < 0, -1.0, 1.0))

    def _by_chance(self, tests: InteractionTests) -> float:
        """The 99 % point of the strongest feature's interaction under the null."""
        return self.cells.largest_by_chance(tests.matrix[:, : tests.q], self.rng, LEVEL)

    def measure_excess(self, own: Floats) -> float:
        """The interaction of coordinates [N, k], less what is expected by chance."""
        z = self.cells.interaction(own) @ find_whitening(own, self.cells.weights)
        return float((z**2).sum() - self.cells.freedom * own.shape[1])

    def measure_shown(self, own: Floats) -> float:
        """The same in deviations of what chance makes of it."""
        return self.measure_excess(own) / float(np.sqrt(2 * self.cells.freedom * own.shape[1]))

    def _choose_direction(self, tests: InteractionTests, test: FlipTest, rotated: bool) -> Floats:
        # The more a statistic exceeds its null, the better the direction is determined.
        names = [n for n in test.observed if n not in CURVED and n != "strongest feature"]
        name = test.best([n for n in names if not rotated or n.startswith(WIDE)])
        if name.startswith(WIDE):
            widths = [n for n in names if n.startswith("direction")]
            best = max(widths, key=lambda n: test.observed[n] / test.expected[n])
            direction = tests.direction(int(best.split()[-1]))
        else:
            strengths = tests.strengths()
            significant = int((strengths > self._by_chance(tests)).sum())
            count = max(int(name.split()[0]), significant)
            direction = tests.direction(0, np.argsort(-strengths, kind="stable")[:count])
        return self._complete(direction)

    def _slopes(self, found: Floats) -> Floats:
        """Regression [k, q] of the features on what was found, within cells."""
        root = np.sqrt(self.cells.weights)[:, None]
        within = root * self.cells.within(self.residual)
        return np.asarray(np.linalg.lstsq(within @ found, within, rcond=None)[0], dtype=np.float64)

    def _take_out(self, found: Floats) -> InteractionTests | None:
        """Tests of what the found coordinates do not explain; None if that is nothing."""
        slopes = self._slopes(found)
        rest = self.residual - (self.residual @ found) @ slopes
        self.rest = self.whole - (self.whole @ found) @ slopes
        gone = rest.std(axis=0) < 1e-3 * self.residual.std(axis=0)
        rest[:, gone] = 0.0
        return None if gone.all() else InteractionTests(rest, self.cells, ordered_by=self.rest)


def _besides(number: int, what: str) -> str:
    return f"besides {number} {what}{'' if number == 1 else 's'}"


def _root_excess(test: FlipTest) -> float:
    """The most that the interaction of any direction exceeds what chance makes of it."""
    names = [name for name in test.observed if name.startswith("direction")]
    return max(test.observed[name] - test.expected[name] for name in names)


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
