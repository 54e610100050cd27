"""Small worlds with a planted covariate, for the tests of this room."""

import numpy as np

from equipoise.balance import Groups, Matches, match_scores


def make_case(n=2000, m=3, strength=0.8, seed=0, n_dimensions=3):
    """z shows a covariate that goes with the label; scores are the true ones."""
    rng = np.random.default_rng(seed)
    labels, sites = rng.integers(m, size=n), rng.integers(2, size=n)
    kept = rng.random(n) < strength
    covariate = np.where(kept, labels, rng.integers(m, size=n))
    z = rng.normal(size=(n, n_dimensions)) * 0.3
    z[:, : min(m, n_dimensions)] += np.eye(m)[covariate][:, :n_dimensions]
    given = np.full((m, m), (1 - strength) / m) + strength * np.eye(m)
    scores = np.log(given[covariate])
    groups = Groups(labels, sites, tuple(f"l{i}" for i in range(m)), ("oslo", "rome"))
    rng = np.random.default_rng(seed)
    matches = match_scores(scores, labels, sites, n_nearest=20, tolerance=0.1, generator=rng)
    return z, scores, matches, groups, covariate


def trim(matches, kept):
    """The same matches where only the examples `kept` may have any, or be any."""
    allowed = kept[:, None, None] & (matches.indices >= 0) & kept[matches.indices]
    order = np.argsort(~allowed, axis=2, kind="stable")
    indices = np.take_along_axis(np.where(allowed, matches.indices, -1), order, axis=2)
    distances = np.take_along_axis(np.where(allowed, matches.distances, np.inf), order, axis=2)
    return Matches(indices, distances, matches.metric)
