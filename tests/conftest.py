"""Small data that every test can afford, made here and the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.data import Examples


def make_spurious(
    n: int = 600, n_labels: int = 2, strengths: tuple[float, ...] = (0.9, 0.8), seed: int = 0
) -> Examples:
    """Feature vectors: one block shows a spurious covariate clearly, another the label weakly."""
    rng = np.random.default_rng(seed)
    environments = np.arange(n) % len(strengths)
    labels = rng.integers(n_labels, size=n)
    kept = rng.random(n) < np.asarray(strengths)[environments]
    other = (labels + rng.integers(1, n_labels, size=n)) % n_labels
    covariate = np.where(kept, labels, other)
    x = np.concatenate(
        [
            3.0 * np.eye(n_labels)[covariate] + 0.1 * rng.normal(size=(n, n_labels)),
            np.eye(n_labels)[labels] + rng.normal(size=(n, n_labels)),
        ],
        axis=1,
    )
    return Examples(x.astype(np.float32), labels, environments, covariate=covariate)


@pytest.fixture(scope="session")
def spurious() -> Examples:
    return make_spurious()


@pytest.fixture
def fake_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    """700 random digits in place of MNIST, so that no test needs the network."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, size=(700, 28, 28), dtype=np.uint8)
    digits = (np.arange(700) % 10).astype(np.uint8)
    monkeypatch.setattr(
        "equipoise.data.published.fetch_mnist", lambda data_dir=None: (pixels, digits)
    )
