"""How much a variable tells about the label: mutual information, before and after matching."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.tree import DecisionTreeClassifier

from equipoise.balance.groups import POOLED, Groups
from equipoise.balance.matches import Matches
from equipoise.diagnosis.covariates import KnownCovariate, code_quantiles

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: From examples to learn from [A] and others [B] the cell of each, and how many cells there are.
Cells = Callable[[Ints, Ints], tuple[Ints, Ints, int]]

COLUMNS = ["environment", "variable", "kind", "before", "after", "label_entropy"]
COLUMNS += ["examples", "left"]
#: Examples of an environment that are looked at; more add little.
MAX_EXAMPLES = 10_000
#: Sizes of tree that are tried: small ones see a faint dependence, large ones an intricate one.
LEAVES = (8, 64)
#: Guesses are drawn towards the overall shares as by this many examples.
CAUTION = 3.0
#: With fewer examples it is not known what anything tells.
MIN_EXAMPLES = 40


def estimate_information(codes: Ints, labels: Ints, weights: Floats) -> float:
    """Mutual information, in nats, of two columns of codes under weights, never below 0.

    Few examples make any two columns look dependent. So the label is guessed from the code with
    shares seen in one half of the examples, and the guesses are tested on the other: the gain in
    log-likelihood over the labels' overall shares is no more than the mutual information on
    average, and about 0 where there is none. The examples should stand in random order. NaN if
    fewer than 40 examples have any weight.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(2, size=1000)
    >>> round(estimate_information(labels, labels, np.ones(1000)), 2)
    0.69
    >>> estimate_information(rng.integers(2, size=1000), labels, np.ones(1000))
    0.0
    """
    n_cells = int(codes.max(initial=-1)) + 1
    return _test_guesses(lambda a, b: (codes[a], codes[b], n_cells), labels, weights)


def tabulate_information(
    z: Floats,
    scores: Floats,
    known: list[KnownCovariate],
    groups: Groups,
    weights: Floats,
    *,
    seed: int,
) -> pd.DataFrame:
    """What z, each of its coordinates, the score and known covariates tell about the label.

    `before` and `after` are in nats, `label_entropy` is before, and `left` counts the `examples`
    that appear in balanced batches at all. A number is cut into 16 quantiles; z and the score as
    a whole are cut by a decision tree, grown anew for each weighting, so that a dependence which
    matching moved elsewhere is still found; z as a whole tells no less than any of its
    coordinates. The pooled row is the mean over environments, by their examples, `after` by those
    that are left: I(label; variable | environment). What fewer than 40 examples tell is NaN.
    """
    rows: list[tuple[Any, ...]] = []
    for environment, place in enumerate(groups.environment_names):
        here = np.flatnonzero(groups.environments == environment)
        if not len(here):
            continue
        left = here[weights[here] > 0]
        told = []
        for members, mass in ((here, np.ones(len(groups))), (left, weights)):
            rng = np.random.default_rng([seed, environment, 0xD1A6])
            part = rng.permutation(members)[:MAX_EXAMPLES]
            told.append(_tell(z, scores, known, part, groups.labels[part], mass[part], seed))
        before, after = told
        shares = np.bincount(groups.labels[here]) / len(here)
        entropy = -(shares[shares > 0] * np.log(shares[shares > 0])).sum()
        sizes = entropy, len(here), len(left)
        rows += [(place, *name, before[name], after[name], *sizes) for name in before]
    table = pd.DataFrame(rows, columns=COLUMNS)
    for name, part in table.groupby(["variable", "kind"], sort=False):
        by, sums = part["examples"], part[["examples", "left"]].sum()
        means = _mean(part["before"], by), _mean(part["after"], part["left"])
        rows.append((POOLED, *name, *means, _mean(part["label_entropy"], by), *sums))
    return pd.DataFrame(rows, columns=COLUMNS)


def share_told(rows: pd.DataFrame, when: str, by: str) -> float:
    """What environments tell together, as a share of the label's entropy; NaN if not known."""
    entropy = _mean(rows["label_entropy"].where(rows[when].notna()), rows[by])
    return float(np.minimum(1.0, _mean(rows[when], rows[by]) / np.maximum(entropy, 1e-12)))


def _tell(
    z: Floats,
    scores: Floats,
    known: list[KnownCovariate],
    part: Ints,
    labels: Ints,
    weights: Floats,
    seed: int,
) -> dict[tuple[str, str], float]:
    """What every variable tells about the label of `part`, which has these labels and weights."""
    coordinates = [
        estimate_information(code_quantiles(column)[0], labels, weights) for column in z[part].T
    ]
    told = {}
    if coordinates:
        told["z", "z"] = max(_told_by_trees(z[part], labels, weights, seed), *coordinates)
    told["score", "score"] = _told_by_trees(scores[part], labels, weights, seed)
    for covariate in known:
        codes = covariate.codes[part]
        told[covariate.name, covariate.kind] = estimate_information(codes, labels, weights)
    return told | {(f"z{i + 1}", "coordinate"): one for i, one in enumerate(coordinates)}


def _told_by_trees(columns: Floats, labels: Ints, weights: Floats, seed: int) -> float:
    """The most that leaves of a tree over `columns` [N, d] tell, over a few sizes of tree."""
    rows = columns.astype(np.float32)

    def cut(n_leaves: int, learn: Ints, test: Ints) -> tuple[Ints, Ints, int]:
        tree = DecisionTreeClassifier(
            criterion="entropy",
            max_leaf_nodes=n_leaves,
            min_samples_leaf=max(5, len(learn) // 500),
            random_state=seed,
        )
        with warnings.catch_warnings():  # of many labels with few examples, it warns
            warnings.simplefilter("ignore", UserWarning)
            tree.fit(rows[learn], labels[learn], sample_weight=weights[learn])
        return tree.apply(rows[learn]), tree.apply(rows[test]), tree.tree_.node_count

    return max(_test_guesses(partial(cut, n_leaves), labels, weights) for n_leaves in LEAVES)


def _test_guesses(cells: Cells, labels: Ints, weights: Floats) -> float:
    """Mean gain in log-likelihood of guesses by cell over guesses by overall shares."""
    shown = np.flatnonzero(weights > 0)  # what trimming left out tells nothing
    half, n_labels = len(shown) // 2, int(labels.max(initial=0)) + 1
    if len(shown) < MIN_EXAMPLES:
        return np.nan
    if labels[shown].min() == labels[shown].max():
        return 0.0
    halves = shown[:half], shown[half:]
    gains = []
    for learn, test in (halves, halves[::-1]):
        mine, others, n_cells = cells(learn, test)
        y, w = labels[learn], weights[learn]
        counts = np.bincount(mine * n_labels + y, w, minlength=n_cells * n_labels)
        counts = counts.reshape(n_cells, n_labels)
        total = counts.sum(axis=1)
        # A cell that a few heavy examples make up must not be sure of itself: `CAUTION` examples
        # of its mean weight are added, spread by the overall shares. An empty one knows nothing.
        squares = np.bincount(mine, w**2, minlength=n_cells)
        added = np.where(total > 0, CAUTION * squares / np.maximum(total, 1e-300), 1.0)[:, None]
        overall = np.bincount(y, w, minlength=n_labels) / w.sum()
        guess = (counts + added * overall) / (total[:, None] + added)
        known = overall[labels[test]] > 0  # a label of the other half only cannot be guessed
        y, mass = labels[test][known], weights[test][known]
        gains.append(np.average(np.log(guess[others[known], y] / overall[y]), weights=mass))
    return float(max(0.0, np.mean(gains)))


def _mean(values: pd.Series, mass: pd.Series) -> float:
    """The mean of those that are known; NaN where they are less than half of the mass."""
    known = values.notna()
    if not mass[known].sum() > 0.5 * mass.sum():
        return np.nan
    return float((values * mass)[known].sum() / mass[known].sum())


def cross_table(rows: ArrayLike, columns: ArrayLike, shape: tuple[int, int] | None = None) -> Ints:
    """Counts of every (row, column) pair of codes.

    >>> cross_table([0, 0, 1], [1, 1, 0])
    array([[0, 2],
           [1, 0]])
    """
    row_codes, column_codes = np.asarray(rows), np.asarray(columns)
    n_rows, n_columns = shape or (int(row_codes.max()) + 1, int(column_codes.max()) + 1)
    flat = np.bincount(row_codes * n_columns + column_codes, minlength=n_rows * n_columns)
    return flat.reshape(n_rows, n_columns).astype(np.int64)


def mutual_information(table: ArrayLike) -> float:
    """Mutual information, in nats, of the two variables of a table of counts or weights.

    >>> mutual_information([[5, 5], [5, 5]])
    0.0
    """
    joint = np.asarray(table, dtype=np.float64)
    joint = joint / joint.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float(max(0.0, (joint[seen] * np.log(joint[seen] / apart[seen])).sum()))


def same_covariate_rate(matches: Matches, covariate: ArrayLike) -> float:
    """The share of drawn matches that have their anchor's true covariate value.

    A batch draws one of the near matches of an anchor and label, so each such pair counts once.
    """
    values = np.asarray(covariate)
    found = matches.indices >= 0
    same = found & (values[matches.indices] == values[:, None, None])
    n_found = found.sum(axis=2)
    return float((same.sum(axis=2)[n_found > 0] / n_found[n_found > 0]).mean())


def standardized_differences(
    features: Floats, labels: Ints, environments: Ints, weights: Floats | None = None
) -> Floats:
    """|Difference of label means| / SD [environments × label pairs, features].

    The denominator is the unweighted SD in the environment, before and after weighting alike. A
    label without weight in an environment has no pairs there.
    """
    weights = np.ones(len(labels)) if weights is None else weights
    rows = []
    for environment in np.unique(environments):
        here = np.flatnonzero(environments == environment)
        x, w = features[here], weights[here]
        scale = np.maximum(x.std(axis=0), 1e-12)
        present = np.unique(labels[here][w > 0])  # trimming may leave nothing of a label
        member = labels[here] == present[:, None]  # [labels, N]
        means = (member * w) @ x / (member @ w)[:, None]
        first, second = np.triu_indices(len(present), k=1)
        rows.append(np.abs(means[first] - means[second]) / scale)
    return np.concatenate(rows)
