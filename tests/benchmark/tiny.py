"""Runs that take a moment: three environments of small vectors, a spurious covariate known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from equipoise.benchmark import RunSettings
from equipoise.data import Examples


def make_data(n: int = 600, n_labels: int = 3, seed: int = 0) -> Examples:
    """The covariate goes with the label in two environments and not in the third."""
    rng = np.random.default_rng(seed)
    environments = np.arange(n) % 3
    labels = rng.integers(n_labels, size=n)
    kept = rng.random(n) < np.array([0.9, 0.8, 0.1])[environments]
    other = (labels + rng.integers(1, n_labels, size=n)) % n_labels
    covariate = np.where(kept, labels, other)
    clear = 3 * np.eye(n_labels)[covariate] + 0.1 * rng.normal(size=(n, n_labels))
    faint = 2 * np.eye(n_labels)[labels] + rng.normal(size=(n, n_labels))
    x = np.concatenate([clear, faint], axis=1)
    names = np.array(["north", "east", "south"])[environments]
    data = Examples(x.astype(np.float32), labels, names, covariate=covariate)
    assert data.environment_names == ("east", "north", "south")
    return data


def make_settings(**changes: Any) -> RunSettings:
    """Twelve steps of ERM, a checkpoint after every fourth, `south` left out."""
    values: dict[str, Any] = {
        "dataset": "tiny",
        "algorithm": "ERM",
        "sampling": "random",
        "test_environment": "south",
        "steps": 12,
        "checkpoint_every": 4,
        "anchors_per_environment": 8,
        "balancer": {"max_steps": 20, "n_nearest": 5},
        "selections": ("train-domain", "test-domain"),
    }
    return RunSettings(**{**values, **changes})


SWEEP_SETTINGS: dict[str, Any] = {
    "steps": 12,
    "checkpoint_every": 4,
    "anchors_per_environment": 8,
    "balancer": {"max_steps": 20, "n_nearest": 5},
}
"""Of a run in a sweep that takes a moment."""


def write_data(path: Path, **changes: Any) -> Path:
    """`make_data` as a file, which any process can open."""
    data = make_data(**changes)
    names = np.array(data.environment_names)[data.environments]
    x = data.fetch(np.arange(len(data))).numpy()
    np.savez(path, x=x, y=data.labels, environment=names)
    return path


def write_sweep(path: Path, data: Path, **changes: Any) -> Path:
    """Two algorithms × two samplings × three seeds: twelve runs."""
    values: dict[str, Any] = {
        "datasets": [str(data)],
        "algorithms": ["ERM", "CORAL"],
        "samplings": ["random", "balanced"],
        "test_environments": ["south"],
        "seeds": 3,
        "profile": "quick",
        "settings": SWEEP_SETTINGS,
    }
    path.write_text(yaml.safe_dump({**values, **changes}, sort_keys=False))
    return path
