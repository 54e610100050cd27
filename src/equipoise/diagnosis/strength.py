"""How strongly Z goes with the label in each environment, and whether that changes between them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import chndtrinc
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

from equipoise.balance.groups import Groups

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Examples of an environment that are looked at, and the fewest that are worth a look.
MAX_EXAMPLES, MIN_EXAMPLES = 3_000, 60
#: An environment with a smaller share of the largest one's examples is not compared.
MIN_SHARE = 0.1
#: The largest environments are compared, and of a label each must have so many examples.
MAX_ENVIRONMENTS, MIN_OF_LABEL = 20, 5
#: From this relative spread between environments on, a strength is said to vary; one whose
#: spread is surely below it is steady.
VARYING = 0.1


@dataclass(frozen=True)
class Variation:
    """How far z's strength differs between environments, relative to its mean.

    spread: what chance explains taken off, and 0 where chance may well explain all of it;
    at_most: the upper 95 % limit of it. Few examples leave room for both, and then it is neither
    seen to vary nor known to be steady.
    """

    spread: float
    at_most: float

    @property
    def is_seen(self) -> bool:
        return self.spread >= VARYING

    @property
    def is_steady(self) -> bool:
        return self.at_most < VARYING


def tabulate_strength(z: Floats, groups: Groups, *, seed: int = 0) -> pd.DataFrame:
    """What z tells about the label in each environment, all labels counting the same.

    Columns: environment, told (a share: 0 nothing, 1 the label), error, examples. Guesses by z
    and its squares, which for a Gaussian p(z | y, e) is the form of p(y | z, e), are learned from
    one half of the examples and tested on the other. Every environment lends the same number of
    examples and the same labels, so that the numbers compare.

    >>> rng = np.random.default_rng(0)
    >>> labels, sites = rng.integers(2, size=(2, 4000))
    >>> z = (2 * labels * sites + rng.normal(size=4000))[:, None]  # none at site 0
    >>> found = tabulate_strength(z, Groups(labels, sites, ("no", "yes"), ("a", "b")))
    >>> found["told"].round(1).tolist()
    [0.0, 0.5]
    """
    chosen = _choose_environments(groups)
    labels = _choose_labels(groups, chosen)
    if len(chosen) < 2 or len(labels) < 2:
        return pd.DataFrame({"environment": [], "told": [], "error": [], "examples": []})
    parts = {
        environment: np.flatnonzero(
            (groups.environments == environment) & np.isin(groups.labels, labels)
        )
        for environment in chosen
    }
    size = min(MAX_EXAMPLES, *map(len, parts.values()))
    rows = []
    for environment, here in parts.items():
        part = np.random.default_rng([seed, environment, 0x57E4]).permutation(here)[:size]
        codes = np.searchsorted(labels, groups.labels[part])
        told, error = _measure_strength(z[part], codes, len(labels))
        rows.append((groups.environment_names[environment], told, error, size))
    return pd.DataFrame(rows, columns=["environment", "told", "error", "examples"])


def measure_variation(strength: pd.DataFrame) -> Variation | None:
    """The spread of z's strength between the environments compared; None if there are none.

    That a difference is not significant does not make it small: the limit says how large it may
    be. Strengths nearer to each other than chance would have them prove no more than usual.

    >>> alike = {"environment": ["a", "b"], "told": [0.70, 0.72], "error": 0.01}
    >>> measure_variation(pd.DataFrame(alike)).is_steady
    True
    >>> unlike = {"environment": ["a", "b"], "told": [0.50, 0.30], "error": 0.01}
    >>> round(measure_variation(pd.DataFrame(unlike)).spread, 2)
    0.35
    >>> few = measure_variation(pd.DataFrame(unlike | {"error": 0.15}))
    >>> few.is_seen, few.is_steady
    (False, False)
    """
    if len(strength) < 2:
        return None
    told, errors = strength["told"].to_numpy(), strength["error"].to_numpy()
    mean, freedom = float(told.mean()), len(told) - 1
    if mean <= 0:
        return Variation(0.0, np.inf)
    noise = max(float(np.mean(errors**2)), 1e-8)
    spread = float(told.var(ddof=1))
    seen = freedom * spread > chi2.ppf(0.95, freedom) * noise
    # The sum of squares is non-central χ²: the largest centre at which so little is still likely.
    squares = max(freedom * spread / noise, freedom)
    at_most = float(chndtrinc(squares, freedom, 0.05)) * noise / freedom
    return Variation(
        float(np.sqrt(spread - noise)) / mean if seen else 0.0, float(np.sqrt(at_most)) / mean
    )


def _choose_environments(groups: Groups) -> Ints:
    """The largest environments, in their order, that have enough examples to be compared."""
    sizes = np.bincount(groups.environments, minlength=groups.shape[0])
    enough = np.flatnonzero(sizes >= max(MIN_EXAMPLES, MIN_SHARE * sizes.max()))
    largest = enough[np.argsort(-sizes[enough], kind="stable")[:MAX_ENVIRONMENTS]]
    return np.sort(largest)


def _choose_labels(groups: Groups, environments: Ints) -> Ints:
    """The labels of which every compared environment has a few examples."""
    counts = groups.total(np.ones(len(groups)))[environments]
    return np.flatnonzero((counts >= MIN_OF_LABEL).all(axis=0))


def _measure_strength(z: Floats, labels: Ints, n_labels: int) -> tuple[float, float]:
    """What guesses by z gain in log-likelihood over blind ones, as a share; its standard error."""
    half = len(labels) // 2
    halves = np.arange(half), np.arange(half, len(labels))
    gains = np.zeros(len(labels))
    for learn, test in (halves, halves[::-1]):
        guess = _learn_guesses(z, labels, learn, test, n_labels)
        gains[test] = np.log(guess[np.arange(len(test)), labels[test]] * n_labels)
    mass = 1.0 / np.bincount(labels, minlength=n_labels)[labels]
    mass /= mass.sum()
    told = float(gains @ mass)
    error = float(np.sqrt(((gains - told) * mass) @ ((gains - told) * mass)))
    return told / np.log(n_labels), error / np.log(n_labels)


def _learn_guesses(z: Floats, labels: Ints, learn: Ints, test: Ints, n_labels: int) -> Floats:
    """Probabilities [T, m] of the labels of `test`, none of them quite 0."""
    scale = np.maximum(z[learn].std(axis=0), 1e-12)
    scaled = np.clip((z - z[learn].mean(axis=0)) / scale, -5, 5)
    columns = np.concatenate([scaled, scaled**2], axis=1)
    present = np.unique(labels[learn])
    guess = np.full((len(test), n_labels), 1.0 / n_labels)
    if len(present) > 1:
        model = LogisticRegression(class_weight="balanced", max_iter=200, tol=1e-3)
        # It warns of many labels with few examples, and of guesses that are not the best to the
        # last digit, which they need not be.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.fit(columns[learn], labels[learn])
        guess[:, present] = model.predict_proba(columns[test])
    return 0.99 * guess + 0.01 / n_labels
