"""Environments that nobody recorded, inferred from where a plain model errs. Experimental."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.scores import as_array, count_labels
from equipoise.checks import check_number, check_seed

_COMPONENTS = 64
_FOLDS = 2
#: A reference model with a smaller share of errors leaves too little for a second environment.
LEAST_ERRORS = 0.01


@dataclass(frozen=True, repr=False)
class InferredEnvironments:
    """Two environments in which a plain model is right to different degrees."""

    codes: IntArray  # [N], 0 or 1; a plain model is right more often in environment 0
    accuracy: float  # held-out, of the plain model
    chance: float  # the accuracy of the commonest label
    accuracies: tuple[float, float]  # of the plain model in environments 0 and 1

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.codes, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        sizes = np.bincount(self.codes, minlength=2)
        return (
            f"InferredEnvironments({sizes[0]:,} + {sizes[1]:,} examples; a plain model is right "
            f"for {self.accuracies[0]:.1%} and {self.accuracies[1]:.1%} of them)"
        )


def infer_environments(
    X: Any, labels: Any, *, seed: int = 0, contrast: float = 0.7
) -> InferredEnvironments:
    """Split examples by whether a plain model's spurious shortcut works for them. Experimental.

    The idea of EIIL (Creager and others 2021): examples whose loss falls with a more confident
    model go to one side, the others to the other. The plain model is a cross-fitted linear one
    on principal components. An example goes to its side with probability `contrast`, so that
    both environments keep examples of every kind.

    Parameters
    ----------
    X : array-like or tensor, [N, ...]
        Features or pixels; trailing axes are flattened.
    labels : integer codes [N]
    seed : int
    contrast : float
        Between 0.5 (a random split) and 1.

    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 1000)
    >>> colour = np.where(rng.random(1000) < 0.85, labels, 1 - labels)
    >>> made = infer_environments(colour[:, None] + 0.1 * rng.normal(size=(1000, 1)), labels)
    >>> agreement = [float((colour == labels)[made.codes == e].mean()) for e in (0, 1)]
    >>> agreement[0] > agreement[1] + 0.1
    True
    """
    check_number("contrast", contrast, least=0.5, most=1.0)
    seed = check_seed("seed", seed)
    codes, _ = count_labels(labels)
    rows = as_array(X)
    n = len(rows) if rows.ndim else 0
    if n != len(codes):
        raise ValueError(f"X has {n} rows, labels {len(codes)}: give one for each example")
    if rows.dtype.kind not in "fiub":
        raise TypeError(f"X must be real numbers, got dtype {rows.dtype}")
    with np.errstate(over="ignore"):
        rows = rows.reshape(len(rows), -1).astype(np.float32)
    if not np.isfinite(rows).all():
        raise ValueError("X has values that are not finite; replace or drop them first")
    with threadpool_limits(1):
        logits = _held_out_logits(rows, codes, seed)
    right = logits.argmax(axis=1) == codes
    chance = float(np.bincount(codes).max() / len(codes))
    if right.mean() < chance + 0.5 * (1 - chance) * 0.1:
        raise ValueError(
            f"a plain model is right for {right.mean():.1%} of the examples, little more than the "
            f"commonest label's {chance:.1%}: its errors do not tell environments apart"
        )
    if (~right).mean() < LEAST_ERRORS:
        warnings.warn(
            f"a plain model errs for only {(~right).mean():.2%} of the examples: the second "
            "environment is mostly drawn at random",
            stacklevel=2,
        )
    # The slope of the loss in the scale of the logits: EIIL's objective is greatest when its
    # sign decides. Negative: the shortcut works, more confidence would help.
    prob = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    prob[np.arange(len(codes)), codes] -= 1.0
    slope = (prob * logits).sum(axis=1)
    generator = np.random.default_rng([seed, 3])
    kept = generator.random(len(codes)) < contrast
    found = np.where(kept, slope > 0, slope <= 0).astype(np.int64)
    if len(np.unique(found)) < 2:
        raise ValueError("all examples fall into one environment: a plain model never errs")
    accuracies = (float(right[found == 0].mean()), float(right[found == 1].mean()))
    return InferredEnvironments(found, float(right.mean()), chance, accuracies)


def _held_out_logits(rows: NDArray[np.float32], labels: IntArray, seed: int) -> FloatArray:
    """Centred logits [N, m] of linear models that did not see the example."""
    from sklearn.decomposition import PCA  # slow to import
    from sklearn.linear_model import LogisticRegression

    n, m = len(rows), int(labels.max()) + 1
    rows = rows - rows.mean(axis=0)
    scale = rows.std(axis=0)
    rows = rows[:, scale > 0]
    if not rows.shape[1]:
        raise ValueError("X has the same values in every row: environments cannot be inferred")
    if rows.shape[1] > _COMPONENTS:
        rows = PCA(_COMPONENTS, svd_solver="randomized", random_state=seed).fit_transform(rows)
    else:
        rows /= scale[scale > 0]
    rows /= np.sqrt(np.square(rows).mean() + 1e-12)
    logits = np.zeros((n, m))
    folds = np.random.default_rng([seed, 4]).permutation(n) % _FOLDS
    for fold in range(_FOLDS):
        train, test = folds != fold, folds == fold
        if len(np.unique(labels[train])) < 2:
            raise ValueError(f"{n} examples are too few to infer environments from")
        model = LogisticRegression(max_iter=300, tol=1e-3).fit(rows[train], labels[train])
        margin = model.decision_function(rows[test]).reshape(int(test.sum()), -1)
        if len(model.classes_) == 2:
            margin = np.hstack([-margin / 2, margin / 2])
        part = np.full((int(test.sum()), m), margin.min() - 1.0)
        part[:, model.classes_] = margin
        logits[test] = part
    return np.asarray(logits - logits.mean(axis=1, keepdims=True))
