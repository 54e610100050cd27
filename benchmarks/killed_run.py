"""Kill a run or a command with SIGKILL at random moments; it must end with the same bytes.

python -m benchmarks killed-run
python -m benchmarks killed-commands
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from equipoise.benchmark import RunSettings, execute_run
from equipoise.data import Examples

SETTINGS = RunSettings(
    dataset="painted squares",
    algorithm="CORAL",
    sampling="balanced",
    test_environment=2,
    steps=150,
    checkpoint_every=10,
    featurizer="small-cnn",
    augmentation="affine",
    weight_average=0.9,
    warm_up=10,
    schedule="cosine",
    anchors_per_environment=8,
    hyperparameters={"dropout": 0.3, "optimizer": "adamw", "weight_decay": 1e-2},
    balancer={"max_steps": 100, "n_nearest": 5, "hidden": [64, 64]},
)


def make_data() -> Examples:
    """Squares whose place is the label and whose colour goes with it, but not everywhere."""
    rng = np.random.default_rng(0)
    n, environments = 900, np.arange(900) % 3
    labels = rng.integers(2, size=n)
    changed = rng.random(n) < np.array([0.1, 0.2, 0.9])[environments]
    colour = np.where(changed, 1 - labels, labels)
    x = 0.2 * rng.random((n, 2, 12, 12), dtype=np.float32)
    rows = np.arange(n)
    for place in range(4):
        x[rows, colour, 2 + 4 * labels + place % 2, 5 + place // 2] += 0.8
    return Examples(x, labels, environments, covariate=colour)


def train(output: Path) -> None:
    """What is killed: one run, with states saved often enough to be caught in the act."""
    torch.set_num_threads(1)
    execute_run(SETTINGS, make_data(), output, cache=output / "balancers", save_every=0.05)


def run_undisturbed(output: Path) -> float:
    """Seconds of a run that nobody kills."""
    started = time.perf_counter()
    process = _start(output)
    process.join()
    if process.exitcode:
        raise SystemExit(f"the undisturbed run ended with exit code {process.exitcode}")
    return time.perf_counter() - started


def kill_at_random(output: Path, delays: np.random.Generator, mean: float, most: int) -> int:
    """Kill and start again until the run is through or was killed `most` times."""
    killed = 0
    while True:
        process = _start(output)
        process.join(delays.uniform(0, 2 * mean) if killed < most else None)
        if process.exitcode is None:
            process.kill()
            process.join()
            killed += 1
        elif process.exitcode == 0:
            return killed
        else:
            raise SystemExit(f"a resumed run ended with exit code {process.exitcode}")


def _start(output: Path) -> multiprocessing.process.BaseProcess:
    # Forked, so that a new start costs no import and a kill may hit any part of the run.
    process = multiprocessing.get_context("fork").Process(target=train, args=(output,))
    process.start()
    return process


def digest_run(output: Path) -> dict[str, str]:
    """SHA-256 of everything a run leaves behind: records, result, best and last weights."""
    paths = [output / "records.jsonl", output / "result.json", *sorted(output.glob("best/*"))]
    paths += [max((output / "checkpoints").iterdir()), *output.glob("balancers/*.safetensors")]
    return {
        str(path.relative_to(output)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }


def run(quick: bool) -> None:
    """In a process of its own: a fork must not inherit the threads of other benchmarks."""
    subprocess.run([sys.executable, __file__, "--kills", "5" if quick else "20"], check=True)


def run_commands(quick: bool) -> None:
    """Kill balance, data pack, data features and sweep --workers 2, twenty times each."""
    test = "tests/faults/test_writing.py::"
    test += "test_killed_anywhere_the_same_command_ends_with_the_same_bytes"
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", test],
        cwd=Path(__file__).parents[1],
        env={**os.environ, "EQUIPOISE_KILLS": "5" if quick else "20"},
        check=True,
    )


BENCHMARKS = {"killed-run": run, "killed-commands": run_commands}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    delays = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "undisturbed"
        seconds = run_undisturbed(whole)
        expected = digest_run(whole)
        killed, number = 0, 0
        # A run that gets through before it was killed often enough is followed by another.
        while killed < options.kills:
            number += 1
            output = Path(folder) / f"killed-{number}"
            mean = seconds / min(8, options.kills)
            killed += kill_at_random(output, delays, mean, options.kills - killed)
            found = digest_run(output)
            if found != expected:
                differing = [name for name in expected if found.get(name) != expected[name]]
                raise SystemExit(f"after {killed} kills these files differ: {differing}")
    print(
        f"{killed} kills in {number} runs of {seconds:.1f} s: "
        f"all {len(expected)} files are bit-identical with those of an undisturbed run"
    )


if __name__ == "__main__":
    main()
