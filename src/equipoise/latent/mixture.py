"""Covariates of few values, told apart by the shape of distributions: components and kinds.

Kinds: x = label effect + effect of a kind + noise, with kinds whose frequencies vary. A
covariate of few values (styles, cameras) shows in the mean of a (label, environment) cell by the
little that its frequencies differ there, but in the rows of a cell by its whole effect: the few
images of another style lie far from the rest. A mixture finds directions by the latter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np

from equipoise.latent.cells import Cells, Floats
from equipoise.latent.interaction import find_whitening

#: Mixtures are fitted to at most so many examples and leading components.
ROWS, COMPONENTS = 4_000, 64
#: Of a component's variance in all, added to the noise.
RIDGE = 1e-3
ITERATIONS, TOLERANCE = 100, 1e-5
#: Starts: k-means among the strongest directions of so many components, and at random.
WIDTHS, RANDOM_STARTS = (8, 32), 2
#: Independent components are sought among so many leading ones.
INDEPENDENT = (4, 8, 16)
#: FastICA starts so often, on at most so many examples.
STARTS, ICA_ROWS = 4, 6_000


def fit_kinds(x: Floats, cells: Cells, n_kinds: int) -> Floats:
    """Directions [q, kinds - 1] that tell kinds apart, of the likeliest mixture in x [N, q].

    Kinds are shared by all labels and environments, and their frequencies are free in every
    (label, environment) cell: the paper's p(z | y, e) for a z of few values.

    >>> rng = np.random.default_rng(0)
    >>> y, e = rng.integers(2, size=3000), rng.integers(2, size=3000)
    >>> kind = np.where(rng.random(3000) < np.where(e == 0, 0.9, 0.6), y, 1 - y)
    >>> x = rng.normal(size=(3000, 3)) + np.stack([4 * kind, 3 * y, 0 * y], axis=1)
    >>> direction = fit_kinds(x - x.mean(axis=0), Cells.of(y, e), 2)[:, 0]
    >>> bool(abs(direction[0]) > 10 * abs(direction[1:]).max())
    True
    """
    mixtures = (_climb(x, cells, start) for start in _iterate_starts(x, cells, n_kinds))
    return max(mixtures, key=lambda mixture: mixture[0])[1]


def _iterate_starts(x: Floats, cells: Cells, n_kinds: int) -> Iterator[Floats]:
    """First memberships [N, kinds]."""
    from sklearn.cluster import KMeans  # slow to import

    views = [x] * RANDOM_STARTS
    residual = cells.residual(x)
    for width in WIDTHS:
        if width <= x.shape[1]:
            whitening = find_whitening(residual[:, :width], cells.weights)
            z = cells.interaction(residual[:, :width]) @ whitening
            leading = np.linalg.svd(z, full_matrices=False)[2][: n_kinds - 1]
            views.append(x[:, :width] @ (whitening @ leading.T))
    for seed, view in enumerate(views):
        kinds = KMeans(n_kinds, n_init=1, random_state=seed).fit(view).labels_
        yield np.eye(n_kinds)[kinds] * 0.9 + 0.1 / n_kinds


def _climb(x: Floats, cells: Cells, member: Floats) -> tuple[float, Floats]:
    """Expectation maximisation from first memberships: log-likelihood and directions."""
    n, q = x.shape
    n_kinds = member.shape[1]
    labels = np.eye(int(cells.labels.max()) + 1)[cells.labels]
    own = np.eye(len(cells.sizes))[cells.cell]
    squares, sums, counts = x.T @ x, labels.T @ x, np.diag(labels.sum(axis=0))
    least = RIDGE * np.trace(squares) / (n * q) * np.eye(q)
    last = -np.inf
    for _ in range(ITERATIONS):
        together, kind_sums = labels.T @ member, member.T @ x
        kind_counts = np.diag(member.sum(axis=0))
        gram = np.block([[counts, together], [together.T, kind_counts]])
        total = np.concatenate([sums, kind_sums])
        effects = np.linalg.solve(gram + 1e-6 * np.eye(len(gram)), total)
        of_label, of_kind = effects[:-n_kinds], effects[-n_kinds:]
        explained = total.T @ effects
        noise = squares - explained - explained.T + effects.T @ gram @ effects  # expected
        root = np.linalg.cholesky(noise / n + least)
        frequencies = own.T @ member + 0.5
        frequencies /= frequencies.sum(axis=1, keepdims=True)
        centres = np.linalg.solve(root, of_kind.T).T
        axes = np.linalg.solve(root.T, centres.T)  # [q, kinds]
        joint = x @ axes - (of_label @ axes)[cells.labels] - 0.5 * (centres**2).sum(axis=1)
        joint += np.log(frequencies)[cells.cell]
        largest = joint.max(axis=1, keepdims=True)
        evidence = largest[:, 0] + np.log(np.exp(joint - largest).sum(axis=1))
        member = np.exp(joint - evidence[:, None])
        rest = squares - sums.T @ of_label - of_label.T @ sums + of_label.T @ counts @ of_label
        far = np.trace(np.linalg.solve(root.T, np.linalg.solve(root, rest)))
        likelihood = float(evidence.sum() - 0.5 * far - n * np.log(np.diag(root)).sum())
        if likelihood - last < TOLERANCE * abs(likelihood):
            break
        last = likelihood
    turn = np.linalg.svd((centres - centres.mean(axis=0)).T, full_matrices=False)[0]
    return likelihood, np.linalg.solve(root.T, turn[:, : n_kinds - 1])


def iterate_independent(whole: Floats, weights: Floats) -> Iterator[Floats]:
    """Independent components [q, k] of leading principal ones (FastICA), by width and start.

    The principal components have signs that follow their skewness, and starts are the same
    everywhere, so that neither a seed nor the order of features matters.
    """
    from sklearn.decomposition import FastICA  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    rng = np.random.default_rng(0x1CA)
    x = whole * np.sqrt(weights / weights.mean())[:, None]
    x = x[np.linspace(0, len(x) - 1, min(len(x), ICA_ROWS)).astype(np.int64)]
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    order = np.flatnonzero(values > 1e-6 * values[-1])[::-1]
    for width in INDEPENDENT:
        if width > INDEPENDENT[0] and width // 2 >= len(order):
            return
        axes = vectors[:, order[:width]] / np.sqrt(values[order[:width]])
        axes = axes * np.where(((x @ axes) ** 3).mean(axis=0) < 0, -1.0, 1.0)
        k = axes.shape[1]
        for start in range(STARTS):
            turn = np.linalg.qr(rng.normal(size=(k, k)))[0] if start else np.eye(k)
            solver = FastICA(whiten=False, max_iter=200, tol=1e-3, w_init=turn)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                solver.fit(x @ axes)
            yield axes @ solver.components_.T
