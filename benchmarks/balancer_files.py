"""Read a saved balancer of a million examples with and without the checks of its content.

python -m benchmarks balancer-files
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np
from safetensors import safe_open

from equipoise import CausalBalancer
from equipoise.balance import Matches

READINGS = 15


def run(quick: bool) -> None:
    """Print the cost of checking as a share of reading; at most 10 % is allowed."""
    n = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "balancer.safetensors"
        make_balancer(n).save(path)
        seconds: dict[str, list[tuple[float, float]]] = {"reading": [], "reading and checking": []}
        for _ in range(READINGS):  # in turn, so that a busy machine slows both
            with _unchecked(path):
                seconds["reading"].append(_time(lambda: CausalBalancer.load(path)))
            seconds["reading and checking"].append(_time(lambda: CausalBalancer.load(path)))
        size = path.stat().st_size
    print(f"{n:,} examples, {size / 1e6:.0f} MB; {READINGS} readings each: least (median) ms")
    for clock, name in enumerate(("elapsed", "processor")):
        plain, checked = ([s[clock] for s in each] for each in seconds.values())
        print(
            f"{name:>10}: reading {_show(plain)}, reading and checking {_show(checked)}: "
            f"+{100 * (min(checked) / min(plain) - 1):.1f} %"
        )


def make_balancer(n: int, fitted: int = 1000) -> CausalBalancer:
    """A balancer as if fitted to n examples: copies of a small one, for the sake of time."""
    rng = np.random.default_rng(0)
    labels, environments = rng.integers(2, size=fitted), rng.integers(3, size=fitted)
    x = rng.normal(size=(fitted, 5)) + labels[:, None]
    balancer = CausalBalancer(hidden=(8,), max_steps=5, balance_on="all", random_state=0)
    balancer.fit(x, labels, environments)
    copies = n // fitted
    for name in ("log_scores_", "z_", "weights_", "_labels", "_environments"):
        values = getattr(balancer, name)
        setattr(balancer, name, np.tile(values, (copies, *[1] * (values.ndim - 1))))
    found = balancer.matches_
    balancer.matches_ = Matches(
        np.tile(found.indices, (copies, 1, 1)),
        np.tile(found.distances, (copies, 1, 1)),
        found.metric,
    )
    return balancer


@contextlib.contextmanager
def _unchecked(path: Path) -> Iterator[None]:
    """No digest is computed."""
    with safe_open(path, framework="pt") as opened:
        digest = json.loads(opened.metadata()["state"])["digest"]
    with mock.patch("equipoise.files._digest_state", return_value=digest):
        yield


def _time(call: Callable[[], object]) -> tuple[float, float]:
    started, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - started, time.process_time() - used


def _show(seconds: list[float]) -> str:
    return f"{1000 * min(seconds):.0f} ({1000 * median(seconds):.0f})"
