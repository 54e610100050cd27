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
    batch = 4_096 if quick else 65_536
    print(f"spread {spread:g}: {n:,} examples; a={ASKED}, {batch:,} anchors at once")
    for ahead in (True, False):
        before = time.process_time()
        made, lazy = time_of(
            lambda ahead=ahead: LazyMatches(scores, labels, environments, n_jobs=2, ahead=ahead)
        )
        busy = time.process_time() - before
        done = "checked and built" if ahead else "checked, built on demand"
        print(f"  {done}: {made:.1f} s, {busy:.1f} processor seconds")
        for turn in ("first", "second", "third"):
            anchors = rng.integers(0, n, batch)
            step = 1 + rng.integers(0, LABELS - 1, (batch, ASKED))
            other = (labels[anchors, None] + step) % LABELS
            before = time.process_time()
            seconds, _ = time_of(lambda a=anchors, o=other, m=lazy: m.lookup(a, o))
            busy = time.process_time() - before
            print(
                f"    {turn + ' look:':13} {batch / seconds:7,.0f} anchors a second "
                f"(wanted: 20,000), {batch / busy:7,.0f} a processor second",
                flush=True,
            )
        del lazy
