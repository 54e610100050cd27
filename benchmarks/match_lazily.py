"""DomainNet's shape, 6 × 98k examples and 345 labels: matches made when a batch asks for them."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.match_setting import describe_machine, make_scores, time_of
from equipoise.balance.match_lazy import LazyMatches

LABELS, ENVIRONMENTS, ASKED = 345, 6, 5


def run(quick: bool) -> None:
    print(describe_machine())
    for spread in (1.0, 8.0):
        _look_up(quick, spread)


def _look_up(quick: bool, spread: float) -> None:
    n = ENVIRONMENTS * (9_000 if quick else 98_000)
    chunks = [
        make_scores(n // 12, LABELS, spread, seed)[0].astype(np.float32) for seed in range(12)
    ]
    scores = np.concatenate(chunks)
    del chunks
    rng = np.random.default_rng(0)
    labels, environments = rng.integers(0, LABELS, n), rng.integers(0, ENVIRONMENTS, n)
    made, lazy = time_of(lambda: LazyMatches(scores, labels, environments, n_jobs=2))
    batch = 4_096 if quick else 65_536
    print(f"spread {spread:g}: {n:,} examples, ready in {made:.1f} s; a={ASKED}, {batch:,} at once")
    for turn in ("first", "second", "third"):
        anchors = rng.integers(0, n, batch)
        other = (labels[anchors, None] + 1 + rng.integers(0, LABELS - 1, (batch, ASKED))) % LABELS
        before = time.process_time()
        seconds, _ = time_of(lambda a=anchors, o=other: lazy.lookup(a, o))
        busy = time.process_time() - before
        print(
            f"  {turn} look: {batch / seconds:9,.0f} anchors a second (wanted: 20,000), "
            f"{batch / busy:9,.0f} a processor second",
            flush=True,
        )
