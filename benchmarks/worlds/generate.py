"""Draw a world: one population, a training sample and test samples for every situation."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from benchmarks.worlds.catalog import WORLDS, WorldSpec
from benchmarks.worlds.content import (
    DrawContent,
    Floats,
    Ints,
    Rng,
    Show,
    draw_images,
    make_content,
    make_show,
)

# The situations of a test sample: a label shows the covariate of itself, of any label, of another.
SITUATIONS = ("as they are", "even", "reversed")
NEW_SITE = "new site"
TEST_ROWS = 3000


@dataclass(frozen=True)
class Sample:
    """Examples of a world; `propensity` is the true p(y|z,e) of every label, [N, m]."""

    X: Floats
    y: Ints
    environments: Ints
    covariate: Ints | Floats | None
    propensity: Floats


@dataclass(frozen=True)
class World:
    """A training sample and the test samples by situation.

    Where a covariate varies the situations are "as they are", "even" and "reversed", and the
    last one is out of domain; else "as they are" and "new site".
    """

    spec: WorldSpec
    seed: int
    train: Sample
    tests: dict[str, Sample] = field(repr=False)

    @property
    def X(self) -> Floats:
        return self.train.X

    @property
    def y(self) -> Ints:
        return self.train.y

    @property
    def environments(self) -> Ints:
        return self.train.environments

    @property
    def covariate(self) -> Ints | Floats | None:
        """Codes (or values, if continuous) of the planted covariates; None if there is none."""
        return self.train.covariate

    @property
    def outside(self) -> str:
        """The situation that counts as out of domain."""
        return "reversed" if "reversed" in self.tests else NEW_SITE

    @property
    def X_test(self) -> Floats:
        return self.tests[self.outside].X

    @property
    def y_test(self) -> Ints:
        return self.tests[self.outside].y

    def true_weights(self) -> Floats:
        """1 / p(y|z,e) by the true covariate: labels even at every z and e; mean 1.

        A discrete covariate's shares are counted, with the truth as two examples' worth of prior.
        """
        chances = self.train.propensity
        if self.covariate is not None and self.covariate.dtype.kind == "i":
            cells = np.stack([self.covariate, self.environments], axis=1)
            groups, of = np.unique(cells, axis=0, return_inverse=True)
            counts = np.zeros((len(groups), chances.shape[1]))
            np.add.at(counts, (of, self.y), 1.0)
            chances = (counts[of] + 2 * chances) / (counts[of].sum(axis=1, keepdims=True) + 2)
        own = chances[np.arange(len(self.y)), self.y]
        weights = 1.0 / ((chances > 0).sum(axis=1) * own)
        return weights / weights.mean()


def make_world(name: str, seed: int) -> World:
    """The world of a name; the seed decides its population and all of its samples.

    >>> world = make_world("column", 0)
    >>> world.X.shape, world.outside
    ((5000, 7), 'reversed')
    """
    if name not in WORLDS:
        raise ValueError(f"no world {name!r}: expected one of {', '.join(WORLDS)}")
    spec = WORLDS[name]
    streams = np.random.SeedSequence([zlib.crc32(name.encode()), seed]).spawn(6)
    population, *rngs = [np.random.default_rng(stream) for stream in streams]
    draw = _make_population(spec, population)
    train = draw(_deal(spec, spec.rows, rngs[0]), SITUATIONS[0], rngs[0])
    tests = {}
    if spec.kind == "planted":
        for situation, rng in zip(SITUATIONS, rngs[1:4], strict=True):
            tests[situation] = draw(_deal(spec, TEST_ROWS, rng), situation, rng)
    else:
        tests[SITUATIONS[0]] = draw(_deal(spec, TEST_ROWS, rngs[1]), SITUATIONS[0], rngs[1])
        new = np.full(TEST_ROWS, spec.n_environments)
        tests[NEW_SITE] = draw(new, SITUATIONS[0], rngs[4])
    return World(spec, seed, train, tests)


def _deal(spec: WorldSpec, n: int, rng: Rng) -> Ints:
    """Environments of n examples, in the world's proportions."""
    shares = np.array(spec.shares or (1.0,) * spec.n_environments, dtype=float)
    edges = np.round(np.cumsum(shares / shares.sum()) * n).astype(np.int64)
    return rng.permutation(np.searchsorted(edges, np.arange(n), side="right"))


def _make_population(spec: WorldSpec, rng: Rng) -> Callable[[Ints, str, Rng], Sample]:
    """What all samples of a world share: content, site effects, how covariates are shown.

    Environments have codes below `n_environments`; that code itself is a new site.
    """
    n_sites, m = spec.n_environments + 1, spec.labels
    images = spec.content == "images"
    frequencies = np.full((n_sites, m), 1.0 / m)
    if spec.site == "frequencies":
        frequencies = rng.dirichlet(np.full(m, 4.0), n_sites)
    for label, environment in spec.missing:
        frequencies[environment, label] = 0.0
    frequencies /= frequencies.sum(axis=1, keepdims=True)
    values = [one.values or m for one in spec.planted]
    links = [(*one.links, float(np.mean(one.links))) for one in spec.planted]
    if images:
        width = 0
    else:
        content = make_content(spec.content, m, spec.columns, rng)
        probe = content(np.repeat(np.arange(m), 500), rng)
        width = probe.shape[1]
        content = _with_sites(spec, content, probe, n_sites, rng)
        shows = [
            make_show(one.shown, width, k, one.strength, rng)
            for one, k in zip(spec.planted, values, strict=True)
        ]
    finish = _make_finish(spec, rng)

    def draw(environments: Ints, situation: str, rng: Rng) -> Sample:
        n = len(environments)
        y = _draw_rows(frequencies[environments], rng)
        own = _choose_shown(y, frequencies[environments], situation, rng)
        codes, log = [], np.log(np.maximum(frequencies[environments], 1e-300))
        for one, k, link in zip(spec.planted, values, links, strict=True):
            strength = np.array(link)[environments]
            if one.shown == "continuous":
                code = rng.normal(size=n) + strength * (2 * own - 1)
                sides = 2.0 * np.arange(m) - 1
                log = log - 0.5 * (code[:, None] - strength[:, None] * sides) ** 2
            else:
                shown_as = np.where(rng.random(n) < strength, own, _another(own, m, rng))
                code = shown_as + m * rng.integers(0, k // m, n)  # the values of that label
                same = (code % m)[:, None] == np.arange(m)
                log = log + np.log(
                    np.where(same, strength[:, None], (1 - strength[:, None]) / (m - 1))
                )
            codes.append(code)
        propensity = np.exp(log - log.max(axis=1, keepdims=True))
        propensity[frequencies[environments] == 0] = 0.0
        propensity /= propensity.sum(axis=1, keepdims=True)
        clean = np.where(rng.random(n) < spec.flip, _another(y, m, rng), y)
        if images:
            names = [one.shown for one in spec.planted]
            x = draw_images(clean, dict(zip(names, codes, strict=True)), m, rng)
        else:
            x = content(clean, environments, rng)
            for show, code in zip(shows, codes, strict=True):
                x = _show_in(show, x, code, width, rng)
        covariate = None
        if codes:
            covariate = codes[0]
            for k, code in zip(values[1:], codes[1:], strict=True):
                covariate = covariate * k + code
        return Sample(finish(x), y, environments, covariate, propensity)

    return draw


def _show_in(show: Show, x: Floats, code: Ints, width: int, rng: Rng) -> Floats:
    """Let a covariate alter the content columns and append its own."""
    shown = show(x[:, :width], code, rng)
    return np.concatenate([shown, x[:, width:]], axis=1)


def _with_sites(
    spec: WorldSpec, content: DrawContent, probe: Floats, n_sites: int, rng: Rng
) -> Callable[[Ints, Ints, Rng], Floats]:
    """Content as an environment sees it: shifted, with another strength, or measured otherwise."""
    width = probe.shape[1]
    shift = np.zeros((n_sites, width))
    gain = np.ones((n_sites, width))
    strength = np.zeros((n_sites, width))
    if spec.site == "shift":
        shift = 0.7 * rng.normal(size=(n_sites, width)) * probe.std(axis=0)
    elif spec.site == "gain":
        gain = np.exp(0.35 * rng.normal(size=(n_sites, width)))
    elif spec.site == "strength":
        own = rng.permutation(width)[: max(1, width // 3)]
        levels = np.append(rng.permutation(np.linspace(-0.8, 0.8, n_sites - 1)), 0.2)
        strength[:, own] = levels[:, None]
    labels = np.repeat(np.arange(spec.labels), len(probe) // spec.labels)
    means = np.stack([probe[labels == label].mean(axis=0) for label in range(spec.labels)])
    means -= means.mean(axis=0)

    def draw(y: Ints, environments: Ints, rng: Rng) -> Floats:
        x = content(y, rng) + means[y] * strength[environments]
        return x * gain[environments] + shift[environments]

    return draw


def _make_finish(spec: WorldSpec, rng: Rng) -> Callable[[Floats], Floats]:
    """Columns in a random order and of any scale, or their image under a random layer."""
    key = rng.integers(2**32)

    def finish(x: Floats) -> Floats:
        own = np.random.default_rng(key)  # the same numbers for every sample
        if spec.features:
            flat = x.reshape(len(x), -1)
            layer = own.normal(size=(flat.shape[1], spec.features)) / np.sqrt(flat.shape[1])
            return np.maximum(3 * flat @ layer + 0.3 * own.normal(size=spec.features), 0)
        if x.ndim > 2:
            return x
        order = own.permutation(x.shape[1])
        return x[:, order] * 10 ** own.uniform(-1, 2, x.shape[1])

    return finish


def _choose_shown(y: Ints, frequencies: Floats, situation: str, rng: Rng) -> Ints:
    """The label whose covariate each example shows; all labels stay as frequent as they are."""
    if situation == "as they are":
        return y
    others = frequencies.copy()  # [N, m]
    if situation == "reversed":
        others[np.arange(len(y)), y] = 0.0
    return _draw_rows(others, rng)


def _draw_rows(probabilities: Floats, rng: Rng) -> Ints:
    """One column of each row, drawn with the row's probabilities."""
    edges = probabilities.cumsum(axis=1)
    drawn = (rng.random((len(edges), 1)) * edges[:, -1:] > edges).sum(axis=1)
    return drawn.astype(np.int64)


def _another(y: Ints, m: int, rng: Rng) -> Ints:
    """A label other than y, any of them as likely."""
    return (y + rng.integers(1, m, len(y))) % m
