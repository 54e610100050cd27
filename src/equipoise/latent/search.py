"""The search for the coordinates that vary: sources, independent components, directions, kinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import kurtosis

from equipoise.latent.cells import LEVEL, NEGLIGIBLE, NEXT_LEVEL, Cells, Floats, Ints
from equipoise.latent.columns import FLAT, Features
from equipoise.latent.curves import CURVED, find_strongest_curve, take_curves
from equipoise.latent.interaction import (
    LEADING,
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


class Search:
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
        self.is_wide = len(features.source) > LEADING[-1]

    def find_linear(self, tests: InteractionTests, test: FlipTest, rotated: bool) -> Floats:
        """Coordinates [q, k] that show what varies: few sources, or else directions or kinds."""
        own = None if rotated else self.take_sources(tests)
        if own is not None:
            self.n_sources = len(own)
            return np.eye(tests.q)[:, own]
        self.take_directions(tests, test, rotated)
        spread = not (rotated or self.n_sources or self.is_independent)
        if spread and self.cells.freedom > 1:
            self.take_kinds()
        return np.stack(self.found, axis=1)

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
        return [] if best is None else self._complete(best[1])

    def _unmix(self, axes: Floats) -> Floats:
        """The nearest axes of components that are uncorrelated within cells.

        What depends on the label is correlated overall, and components that are not hold a
        little of each other: a mark of the label would seem to vary beside a covariate.
        """
        within = self.cells.within(self.residual @ axes) * np.sqrt(self.cells.weights)[:, None]
        values, vectors = np.linalg.eigh(within.T @ within / len(within))
        return np.asarray(axes @ (vectors / np.sqrt(np.maximum(values, 1e-12))) @ vectors.T)

    def _complete(self, directions: Floats) -> list[Floats]:
        """Directions [q, k] of the rest as directions of the features, of unit deviation."""
        if self.found:  # the rest is residual − found @ slopes, so a direction has both parts
            found = np.stack(self.found, axis=1)
            directions = directions - found @ (self._slopes(found) @ directions)
        return list((directions / (self.features.values @ directions).std(axis=0)).T)

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
                    chosen = self._choose_directions(tests, test, rotated, strongest)
                    self.found += chosen[: limit - len(self.found)]
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

    def _deal_halves(self) -> list[tuple[tuple[Ints, Search], tuple[Ints, Search]]]:
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

    def _restrict(self, rows: Ints) -> Search:
        """The same search among some of the examples."""
        features = replace(self.features, values=self.features.values[rows])
        cells = Cells.of(self.cells.labels[rows], self.cells.environments[rows])
        residual = find_residual(features, cells)
        whole = find_whole(features.values, residual, cells)
        return Search(features, residual, cells, self.rng, whole)

    def _find_axes(self) -> Floats:
        """Axes [q, k] of the leading components of the whole, fewer where examples are few."""
        axes = _find_components(self.whole, min(COMPONENTS, len(self.whole) // ROWS_OF_COMPONENT))
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

    def _choose_directions(
        self, tests: InteractionTests, test: FlipTest, rotated: bool, strongest: float
    ) -> list[Floats]:
        """The strongest direction; if features are many, all that exceed chance with it."""
        # The more a statistic exceeds its null, the better the direction is determined.
        names = [n for n in test.observed if n not in CURVED and n != "strongest feature"]
        name = test.best([n for n in names if not rotated or n.startswith(WIDE)])
        if name.startswith(WIDE):
            widths = [n for n in names if n.startswith("direction")]
            best = max(widths, key=lambda n: test.observed[n] / test.expected[n])
            roots, directions = tests.find_directions(int(best.split()[-1]))
            if self.is_wide:
                large = roots - test.expected[best] >= NEGLIGIBLE * strongest
                count = test.count_beyond(best, roots[large], NEXT_LEVEL)
            else:
                count = 1
        else:
            strengths = tests.strengths()
            significant = int((strengths > self._by_chance(tests)).sum())
            count = max(int(name.split()[0]), significant)
            among = np.argsort(-strengths, kind="stable")[:count]
            directions, count = tests.find_directions(0, among)[1], 1
        return self._complete(directions[:, : max(1, count)])

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


def _find_components(values: Floats, most: int) -> Floats:
    """Axes [q, k] of the leading principal components of centred values."""
    sizes, vectors = np.linalg.eigh(values.T @ values / len(values))
    kept = sizes > 1e-6 * sizes.max()
    return np.asarray(vectors[:, kept][:, ::-1][:, :most])


def _besides(number: int, what: str) -> str:
    return f"besides {number} {what}{'' if number == 1 else 's'}"


def _root_excess(test: FlipTest) -> float:
    """The most that the interaction of any direction exceeds what chance makes of it."""
    names = [name for name in test.observed if name.startswith("direction")]
    return max(test.observed[name] - test.expected[name] for name in names)
