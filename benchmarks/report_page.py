"""The report of 100,000 pictures: seconds and megabytes, against a minute and ten megabytes."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from equipoise.balancer import CausalBalancer
from equipoise.data import Examples
from equipoise.report import write_report

N_LABELS, N_ENVIRONMENTS, SIDE = 10, 3, 28
MOST_SECONDS, MOST_MEGABYTES = 60.0, 10.0


def make_pictures(n: int, seed: int = 0) -> Examples:
    """Noisy pictures of a shape for each label, in a colour that mostly goes with it."""
    rng = np.random.default_rng(seed)
    environments, labels = rng.integers(N_ENVIRONMENTS, size=n), rng.integers(N_LABELS, size=n)
    kept = rng.random(n) < np.array([0.9, 0.8, 0.7])[environments]
    colour = np.where(kept, labels, rng.integers(N_LABELS, size=n))
    shapes = rng.random((N_LABELS, SIDE, SIDE)) < 0.3
    tints = rng.random((N_LABELS, 3))
    x = np.empty((n, 3, SIDE, SIDE), dtype=np.uint8)
    for start in range(0, n, 10_000):
        part = slice(start, start + 10_000)
        clean = shapes[labels[part], None] * tints[colour[part], :, None, None]
        noise = rng.random(clean.shape, dtype=np.float32)
        x[part] = (255 * (0.8 * clean + 0.2 * noise)).astype(np.uint8)
    data = Examples(torch.from_numpy(x), labels, environments, covariate=colour)
    data.covariate_name = "colour"
    return data


def run(quick: bool) -> None:
    """Fit, then time the whole report: diagnosis, drawing, writing."""
    n = 10_000 if quick else 100_000
    data = make_pictures(n)
    balancer = CausalBalancer(max_steps=100, reading="hypothesised", n_jobs=-1, random_state=0)
    started = time.perf_counter()
    balancer.fit(data)
    print(f"fitted {n:,} pictures in {time.perf_counter() - started:.1f} s (not counted)")
    with tempfile.TemporaryDirectory() as folder:
        wall, processor = time.perf_counter(), time.process_time()
        page = write_report(Path(folder) / "report.html", balancer)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        megabytes = page.stat().st_size / 1e6
    print(f"report: {wall:.1f} s ({processor:.1f} s of processor time), {megabytes:.2f} MB")
    print(f"  {wall / MOST_SECONDS:.2f} of a minute, {megabytes / MOST_MEGABYTES:.2f} of 10 MB")
