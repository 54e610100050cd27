"""The small classifiers that price and protection are measured with, and what they see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

if TYPE_CHECKING:
    import torch

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Of more columns than this, principal components, and so many columns that go with the label
#: most, as far as components explain less than half of them.
MAX_COLUMNS, STRONGEST, COMPONENTS = 250, 50, 40
#: Boosted trees grow one tree per label and round: with many labels, fewer rounds.
ROUNDS, MAX_TREES = 30, 120
BINS = 60
#: The network sees images of at most so many pixels a side, moved by a few, in batches of:
SIDE, SHIFT, BATCH = 32, 2, 128
#: It takes so many steps for each label, between the least and the most.
STEPS_OF_LABEL, LEAST_STEPS, MOST_STEPS = 80, 200, 800


@dataclass(frozen=True)
class Judge:
    """A classifier and what it sees of the examples, [n, …]."""

    make: Callable[[], Any]
    view: NDArray

    def call(self, labels: Ints, weights: Floats, train: NDArray, test: NDArray) -> Ints:
        """Labels of the test rows, as a classifier of the weighted training rows calls them."""
        model, mass = self.make(), weights[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(self.view[train], labels[train], sample_weight=mass / mass.mean())
        return np.asarray(model.predict(self.view[test]))


def make_judges(x: NDArray, labels: Ints, curves: Floats | None, seed: int) -> list[Judge]:
    """A small network for images [n, c, h, w]; for tables [n, p] a linear model and trees.

    Where there are `curves`, a second linear model is shown them.
    """
    if x.ndim > 2:
        return [Judge(lambda: SmallNetwork(seed), _shrink(x))]
    n_labels = len(np.unique(labels))
    rounds = int(np.clip(MAX_TREES // (1 if n_labels == 2 else n_labels), 12, ROUNDS))
    view = _view_columns(x, labels, seed)
    views = [view] if curves is None else [view, np.hstack([view, _standardize(curves)])]
    trees: dict[str, Any] = {
        "max_iter": rounds,
        "learning_rate": 0.15 * ROUNDS / rounds,
        "max_leaf_nodes": 15,
        "max_bins": BINS + 1,
        "l2_regularization": 1.0,
        "early_stopping": False,
        "random_state": seed,
    }
    return [
        *(Judge(lambda: LogisticRegression(C=0.1, max_iter=100, tol=1e-3), own) for own in views),
        Judge(lambda: HistGradientBoostingClassifier(**trees), _cut(view)),
    ]


class SmallNetwork:
    """Two convolutions and a hidden layer, trained on batches drawn by weight."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: NDArray, y: Ints, sample_weight: Floats) -> SmallNetwork:
        import torch  # slow to import
        from torch import nn
        from torch.nn.functional import cross_entropy

        self.classes, codes = np.unique(y, return_inverse=True)
        target, mass = torch.from_numpy(codes), torch.from_numpy(sample_weight)
        generator = torch.Generator().manual_seed(self.seed)
        side = [(length + 3) // 4 for length in x.shape[2:]]  # after two strides of 2
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self.network = nn.Sequential(
                nn.Conv2d(x.shape[1], 16, 3, stride=2, padding=1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.BatchNorm2d(32),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(32 * side[0] * side[1], 64),
                nn.ReLU(),
                nn.Linear(64, len(self.classes)),
            )
        parameters = self.network.parameters()
        optimizer = torch.optim.AdamW(parameters, lr=5e-3, weight_decay=1e-2)
        steps = int(np.clip(STEPS_OF_LABEL * len(self.classes), LEAST_STEPS, MOST_STEPS))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
        pixels = torch.from_numpy(x)
        for _ in range(steps):
            rows = torch.multinomial(mass, BATCH, replacement=True, generator=generator)
            shift = torch.randint(-SHIFT, SHIFT + 1, (2,), generator=generator).tolist()
            batch = torch.roll(pixels[rows], shift, (2, 3))
            loss = cross_entropy(self.network(batch), target[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
        return self

    def predict(self, x: NDArray) -> Ints:
        import torch

        self.network.eval()
        with torch.no_grad():
            parts: list[torch.Tensor] = [
                self.network(torch.from_numpy(x[start : start + 1024])).argmax(dim=1)
                for start in range(0, len(x), 1024)
            ]
        return np.asarray(self.classes[torch.cat(parts).numpy()])


def _shrink(images: NDArray) -> NDArray[np.float32]:
    """Images [n, c, h, w] of unit variance, averaged over blocks to at most 32 pixels a side."""
    import torch
    from torch.nn.functional import avg_pool2d

    block = [-(-length // SIDE) for length in images.shape[2:]]
    parts = [
        avg_pool2d(torch.from_numpy(np.ascontiguousarray(part, dtype=np.float32)), block)
        for part in np.array_split(images, max(1, len(images) // 1024))
    ]
    small = torch.cat(parts).numpy()
    return np.asarray((small - small.mean()) / max(float(small.std()), 1e-12))


def _view_columns(x: Floats, labels: Ints, seed: int) -> Floats:
    """Standardised columns; of wide tables, principal components and the strongest columns."""
    view = np.asarray(x, dtype=np.float64)
    missing = np.isnan(view)
    if missing.any():
        view = np.where(missing, np.nan_to_num(np.nanmean(view, axis=0)), view)
    view = _standardize(view)
    if view.shape[1] <= MAX_COLUMNS:
        return view
    solver = PCA(min(COMPONENTS, len(view) - 1), svd_solver="randomized", random_state=seed)
    components = solver.fit_transform(view)
    means = [view[labels == label].mean(axis=0) for label in np.unique(labels)]
    strongest = np.argsort(-np.var(means, axis=0), kind="stable")[:STRONGEST]
    unexplained = (view - solver.inverse_transform(components))[:, strongest].var(axis=0)
    return np.hstack([view[:, strongest[unexplained > 0.5]], _standardize(components)])


def _standardize(view: Floats) -> Floats:
    scale = view.std(axis=0)
    return np.asarray((view - view.mean(axis=0)) / np.where(scale > 0, scale, 1.0))


def _cut(x: Floats) -> Floats:
    """Every column in at most 60 quantiles: trees need no more, and weighted ones are slow."""
    points = np.quantile(x, np.arange(1, BINS) / BINS, axis=0)  # [59, p]
    columns = [np.searchsorted(np.unique(q), c) for q, c in zip(points.T, x.T, strict=True)]
    return np.stack(columns, axis=1).astype(np.float64)
