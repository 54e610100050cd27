"""One run of the battery: fit a balancer at default settings, and measure it against the truth."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from benchmarks.worlds.content import Floats, Ints
from benchmarks.worlds.generate import SITUATIONS, World, make_world

CLASSIFIERS: dict[str, Callable[[], ClassifierMixin]] = {
    "logistic regression": lambda: LogisticRegression(C=0.1, max_iter=200),
    "boosted trees": lambda: HistGradientBoostingClassifier(
        max_iter=30, learning_rate=0.15, max_leaf_nodes=15, max_bins=63, random_state=0
    ),
    "perceptron": lambda: MLPClassifier(
        (32,), alpha=0.1, max_iter=15, learning_rate_init=3e-3, batch_size=100, random_state=0
    ),
}
TRAIN_ROWS = 4000  # classifiers train on at most as many
COMPONENTS = 40  # of images, which these classifiers see in place of pixels
CONVOLUTIONAL = "convolutional network"  # of images alone, and trained on their pixels
STEPS, EVERY = 800, 100


@dataclass(frozen=True)
class Measurement:
    """What one seed of one world gave; accuracies and differences in points.

    `accuracy` is by classifier, training ("random", "balanced", "true") and situation;
    `situations` are the balancer's own estimates: situation -> [plain, balanced].
    """

    world: str
    seed: int
    n_varying: int
    left: float  # mutual information of covariate and label, balanced ÷ before; NaN if none
    fit_seconds: float
    diagnose_seconds: float
    recommendation: str
    headline: str
    price: float
    price_error: float
    protection: float
    protection_error: float
    situations: dict[str, list[float]]
    accuracy: dict[str, dict[str, dict[str, float]]]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def mean_accuracy(self, training: str, situation: str) -> float:
        """Mean over the classifiers."""
        return float(np.mean([own[training][situation] for own in self.accuracy.values()]))

    def estimated_accuracy(self, training: str, situation: str) -> float:
        """Of the kind of classifier that the balancer's estimates are for: of images, a network."""
        if CONVOLUTIONAL in self.accuracy:
            return self.accuracy[CONVOLUTIONAL][training][situation]
        return self.mean_accuracy(training, situation)


def measure(name: str, seed: int, make_balancer: Callable[..., Any] | None = None) -> Measurement:
    """Fit, diagnose and train on one world; `make_balancer` takes `random_state`."""
    if make_balancer is None:
        from equipoise import CausalBalancer as make_balancer
    world = make_world(name, seed)
    started = time.process_time()
    balancer = make_balancer(random_state=seed).fit(world.X, world.y, world.environments)
    fitted = time.process_time()
    diagnostics = balancer.diagnose()
    verdict = diagnostics.verdict
    diagnosed = time.process_time()
    weights = np.asarray(balancer.weights_, dtype=float)
    found = diagnostics.situations
    return Measurement(
        world=name,
        seed=seed,
        n_varying=int(balancer.n_varying_),
        left=measure_left(world, weights),
        fit_seconds=round(fitted - started, 2),
        diagnose_seconds=round(diagnosed - fitted, 2),
        recommendation=verdict.recommendation,
        headline=verdict.headline,
        price=float(verdict.price),
        price_error=float(verdict.price_error),
        protection=float(verdict.protection),
        protection_error=float(verdict.protection_error),
        situations={
            row: [float(found.loc[row, training]) for training in ("plain", "balanced")]
            for row in SITUATIONS
            if found is not None and row in found.index
        },
        accuracy=train_all(world, weights),
    )


def count_directions(name: str, seed: int) -> int:
    """Fit alone: the number of directions found."""
    from equipoise import CausalBalancer

    world = make_world(name, seed)
    balancer = CausalBalancer(random_state=seed).fit(world.X, world.y, world.environments)
    return int(balancer.n_varying_)


def measure_left(world: World, weights: Floats) -> float:
    """Information of the covariate about the label within environments, after ÷ before."""
    if world.covariate is None:
        return float("nan")
    codes = np.asarray(world.covariate)
    if codes.dtype.kind == "f":
        codes = np.searchsorted(np.quantile(codes, np.arange(1, 8) / 8), codes)
    before = information(codes, world.y, world.environments, np.ones(len(codes)))
    return information(codes, world.y, world.environments, weights) / before


def information(codes: Ints, y: Ints, environments: Ints, weights: Floats) -> float:
    """Weighted I(codes; y | e) in nats, less its bias under independence; at least 0.

    The bias is that of counts with the same effective sample size.
    """
    total = 0.0
    for environment in np.unique(environments):
        rows = environments == environment
        table = np.zeros((codes.max() + 1, y.max() + 1))
        np.add.at(table, (codes[rows], y[rows]), weights[rows])
        n_values, n_labels = (table.sum(axis=1) > 0).sum(), (table.sum(axis=0) > 0).sum()
        table /= table.sum()
        alone = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
        seen = table > 0
        own = float((table[seen] * np.log(table[seen] / alone[seen])).sum())
        size = weights[rows].sum() ** 2 / (weights[rows] ** 2).sum()
        total += rows.mean() * max(own - (n_values - 1) * (n_labels - 1) / (2 * size), 0.0)
    return total


def train_all(world: World, weights: Floats) -> dict[str, dict[str, dict[str, float]]]:
    """Accuracy in points by classifier, training and situation."""
    rng = np.random.default_rng(world.seed)
    chosen = rng.permutation(len(world.y))[:TRAIN_ROWS]
    see = _make_view(world.X[chosen])
    x, y = see.transform(world.X[chosen]), world.y[chosen]
    tests = {situation: (see.transform(test.X), test.y) for situation, test in world.tests.items()}
    trainings: dict[str, Floats | None] = {"random": None, "balanced": weights}
    if world.spec.kind == "planted":
        trainings["true"] = world.true_weights()
    accuracy = {
        kind: {
            training: _score(make(), x, y, None if own is None else own[chosen], tests)
            for training, own in trainings.items()
        }
        for kind, make in CLASSIFIERS.items()
    }
    if world.X.ndim > 2:
        pixels = {situation: (test.X, test.y) for situation, test in world.tests.items()}
        accuracy[CONVOLUTIONAL] = {
            training: _score(
                Convolutional(), world.X[chosen], y, None if own is None else own[chosen], pixels
            )
            for training, own in trainings.items()
        }
    return accuracy


def _score(
    model: Any, x: Floats, y: Ints, weights: Floats | None, tests: dict[str, tuple[Floats, Ints]]
) -> dict[str, float]:
    """Accuracy in points by situation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x, y, sample_weight=weights)
    return {name: round(100 * float(model.score(*test)), 2) for name, test in tests.items()}


class Convolutional(ClassifierMixin):
    """Two convolutions with pooling, not the verdict's network; stopped by a held-out fifth."""

    def fit(self, x: Floats, y: Ints, sample_weight: Floats | None = None) -> Convolutional:
        import torch
        from torch import nn

        torch.manual_seed(0)
        self.classes_, codes = np.unique(y, return_inverse=True)
        sides = [length // 4 for length in x.shape[2:]]
        self.network = nn.Sequential(
            *(nn.Conv2d(x.shape[1], 24, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(24, 48, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
            *(nn.Linear(48 * sides[0] * sides[1], 64), nn.ReLU(), nn.Dropout(0.5)),
            nn.Linear(64, len(self.classes_)),
        )
        weights = np.ones(len(y)) if sample_weight is None else sample_weight
        pixels, target, mass = map(torch.from_numpy, (x.astype(np.float32), codes, weights))
        optimizer = torch.optim.Adam(self.network.parameters(), 2e-3, weight_decay=1e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
        held = torch.arange(len(y)) % 5 == 0
        drawn = torch.where(held, 0.0, mass)
        best, kept = -1.0, copy.deepcopy(self.network.state_dict())
        for step in range(1, STEPS + 1):
            rows = torch.multinomial(drawn, 64, replacement=True)
            loss = nn.functional.cross_entropy(self.network(pixels[rows]), target[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if step % EVERY == 0:
                right = self.predict(x[held.numpy()]) == y[held.numpy()]
                score = float(np.average(right, weights=mass[held].numpy()))
                if score > best:
                    best, kept = score, copy.deepcopy(self.network.state_dict())
        self.network.load_state_dict(kept)
        return self

    def predict(self, x: Floats) -> Ints:
        import torch

        self.network.eval()
        with torch.no_grad():
            called = self.network(torch.from_numpy(x.astype(np.float32))).argmax(dim=1)
        self.network.train()
        return self.classes_[called.numpy()]


def _make_view(x: Floats) -> Pipeline:
    """Standardised columns, or principal components of an image's pixels."""
    steps: list[Any] = [StandardScaler()]
    if x.ndim > 2:
        steps = [FunctionTransformer(_flatten), PCA(COMPONENTS, random_state=0), StandardScaler()]
    return make_pipeline(*steps).fit(x)


def _flatten(x: Floats) -> Floats:
    return x.reshape(len(x), -1)
