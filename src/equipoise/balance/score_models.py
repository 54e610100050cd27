"""Two models of p(y | c, e), stored as plain arrays: logistic regression and boosted trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray

_STOPS_FROM = 20  # examples of each label


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression on numbers, their squares, categories and environments."""

    coefficients: FloatArray  # [features + 1, m]; the last row is the intercept
    numbers: IntArray
    interactions: bool

    @classmethod
    def fit(
        cls, interactions: bool, m: int, strength: float, design: Design, labels: IntArray
    ) -> Logistic:
        from sklearn.linear_model import LogisticRegression  # slow to import

        features = _expand(design, interactions)
        model = LogisticRegression(C=strength, max_iter=500, tol=1e-4).fit(features, labels)
        coefficients = np.full((features.shape[1] + 1, m), 0.0)
        coefficients[-1] = -50.0  # a label that was not seen
        coefficients[:, model.classes_] = 0.0
        columns = model.classes_[-len(model.coef_) :]  # of two labels only the second has any
        coefficients[:-1, columns] = model.coef_.T
        coefficients[-1, columns] = model.intercept_
        return cls(coefficients, design.numbers, interactions)

    def logits(self, design: Design) -> FloatArray:
        features = _expand(design, self.interactions)
        return np.asarray(features @ self.coefficients[:-1] + self.coefficients[-1])

    def state(self) -> dict[str, NDArray[Any]]:
        return {"coefficients": self.coefficients}


@dataclass(frozen=True)
class Trees:
    """Boosted trees as plain arrays, a row for each node; a leaf points at itself."""

    roots: IntArray  # [trees]
    adds_to: IntArray  # [trees], the label whose logit the tree adds to
    feature: IntArray
    threshold: FloatArray
    left: IntArray
    right: IntArray
    value: FloatArray
    baseline: FloatArray  # [m]
    depth: int
    fitted: Any = None  # the library's own model, faster while it lives

    @classmethod
    def fit(cls, m: int, seed: int, design: Design, labels: IntArray) -> Trees:
        from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

        # Stopping early needs some examples of each label to be held out.
        enough = np.unique(labels, return_counts=True)[1].min() >= _STOPS_FROM
        model = HistGradientBoostingClassifier(
            max_iter=80 if enough else 30,
            max_bins=128,
            max_leaf_nodes=16,
            learning_rate=0.2,
            l2_regularization=1.0,
            early_stopping=bool(enough),
            validation_fraction=0.1,
            n_iter_no_change=8,
            random_state=seed,
        ).fit(design.with_environments, labels)
        present = model.classes_
        columns = present if len(present) > 2 else present[1:]
        baseline = np.full(m, -50.0)
        baseline[present] = 0.0
        baseline[columns] = model._baseline_prediction.ravel()
        nodes = [tree.nodes for trees in model._predictors for tree in trees]
        joined = np.concatenate(nodes)
        sizes = np.array([len(part) for part in nodes])
        roots = np.cumsum(sizes) - sizes
        offset = np.repeat(roots, sizes)
        leaf, here = joined["is_leaf"].astype(bool), np.arange(len(joined))
        return cls(
            roots,
            np.tile(columns, len(model._predictors)).astype(np.int64),
            np.where(leaf, 0, joined["feature_idx"]).astype(np.int64),
            np.where(leaf, np.inf, joined["num_threshold"]),
            np.where(leaf, here, joined["left"] + offset).astype(np.int64),
            np.where(leaf, here, joined["right"] + offset).astype(np.int64),
            joined["value"].astype(np.float64),
            baseline,
            int(joined["depth"].max()),
            model,
        )

    def logits(self, design: Design) -> FloatArray:
        rows = design.with_environments
        result = np.tile(self.baseline, (len(rows), 1))
        if self.fitted is not None:
            columns = self.fitted.classes_[-self.fitted.n_trees_per_iteration_ :]
            result[:, columns] = self.fitted.decision_function(rows).reshape(len(rows), -1)
            return result
        step = 1 << 14  # rows that stay in cache
        for start in range(0, len(rows), step):
            part = np.ascontiguousarray(rows[start : start + step])
            flat, width = part.ravel(), part.shape[1]
            base = np.arange(len(part)) * width
            for root, label in zip(self.roots, self.adds_to, strict=True):
                node = np.full(len(part), root)
                for _ in range(self.depth):
                    goes_left = flat[base + self.feature[node]] <= self.threshold[node]
                    node = np.where(goes_left, self.left[node], self.right[node])
                result[start : start + step, label] += self.value[node]
        return result

    def state(self) -> dict[str, NDArray[Any]]:
        return {f"tree_{name}": np.asarray(getattr(self, name)) for name in self.stored()}

    @classmethod
    def stored(cls) -> list[str]:
        return [name for name in cls.__dataclass_fields__ if name != "fitted"]


Model = Logistic | Trees
Fit = Callable[["Design", IntArray], Model]


@dataclass(frozen=True)
class Design:
    """Encoded covariates [N, p] with environments as places 0 … E−1."""

    matrix: FloatArray
    numbers: IntArray
    environments: IntArray
    n_environments: int

    def take(self, rows: IntArray) -> Design:
        return Design(self.matrix[rows], self.numbers, self.environments[rows], self.n_environments)

    @property
    def dummies(self) -> FloatArray:
        """One column for each environment, none where there is only one."""
        if self.n_environments == 1:
            return np.empty((len(self.matrix), 0))
        return np.asarray(self.environments[:, None] == np.arange(self.n_environments), np.float64)

    @property
    def with_environments(self) -> FloatArray:
        return np.hstack([self.matrix, self.dummies])


def _expand(design: Design, interactions: bool) -> FloatArray:
    matrix, dummies = design.matrix, design.dummies
    # Squares of clipped values: one extreme value must not rule the fit.
    squares = np.square(np.clip(matrix[:, design.numbers], -6, 6)) / 4
    parts = [matrix, squares, dummies]
    if interactions:
        parts += [matrix * dummies[:, [e]] for e in range(design.n_environments)]
    return np.hstack(parts)
