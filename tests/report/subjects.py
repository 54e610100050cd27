"""Small things to report on: a table, some pictures, a run; fitted in a moment."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from benchmark.tiny import make_data, make_settings
from equipoise.balancer import CausalBalancer
from equipoise.benchmark import execute_run
from equipoise.data import Examples

# What a careless page would run, end its script at, or break its layout on.
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><!--'
LONG = "Pneumonoultramicroscopicsilicovolcanoconiosis" * 3


def make_table(n: int = 240) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features, labels and environments; a device goes with the label, less so in one place."""
    rng = np.random.default_rng(0)
    codes, places = rng.integers(3, size=n), rng.integers(2, size=n)
    kept = rng.random(n) < np.array([0.9, 0.8])[places]
    device = np.where(kept, codes, rng.integers(3, size=n))
    features = pd.DataFrame(
        {
            "signal": 3.0 * (device == 0) + 0.3 * rng.normal(size=n),
            HOSTILE: 3.0 * (device == 1) + 0.3 * rng.normal(size=n),
            "marker": codes + rng.normal(size=n),
            "age": 50 + 10 * rng.normal(size=n),
        }
    )
    labels = np.array(["healthy", HOSTILE, LONG])[codes]
    return features, labels, np.array(["rome", f"oslo {HOSTILE}"])[places]


def make_pictures(n: int = 240) -> Examples:
    """Two-coloured 8 × 8 pictures; the colour goes with the label."""
    rng = np.random.default_rng(0)
    labels, places = rng.integers(3, size=n), rng.integers(2, size=n)
    kept = rng.random(n) < np.array([0.9, 0.75])[places]
    colour = np.where(kept, labels, rng.integers(3, size=n))
    x = np.zeros((n, 3, 8, 8), dtype=np.float32)
    for i in range(n):
        x[i, colour[i], labels[i] * 2 : labels[i] * 2 + 3, 1:7] = rng.uniform(0.6, 1.0)
    names = np.array(["bar", HOSTILE, LONG])[labels]
    data = Examples(x, names, np.array(["day", "night"])[places], covariate=colour)
    data.covariate_name = "colour"
    return data


@cache
def fit_table(balance_on: str = "varying") -> CausalBalancer:
    """By default nothing is found and no model of Z fitted; "all" fits one."""
    balancer = CausalBalancer(balance_on, max_steps=30, n_nearest=5, random_state=0)
    return balancer.fit(*make_table())


@cache
def fit_pictures(balance_on: str = "varying") -> CausalBalancer:
    """By default one thing is found to vary; "all" fits a model of Z."""
    settings = {"max_steps": 30, "n_nearest": 5, "hidden": (32,), "random_state": 0}
    return CausalBalancer(balance_on, **settings).fit(make_pictures())


def train_tiny(output: Path) -> Examples:
    """A run of twelve steps on vectors, with its balancer beside it; gives its data."""
    data = make_data(n=360)
    selections = ("train-domain", "balanced", "test-domain")
    execute_run(make_settings(sampling="balanced", selections=selections), data, output)
    return data
