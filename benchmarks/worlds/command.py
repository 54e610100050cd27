"""`python -m benchmarks worlds`: measure what is missing, print the figures, write the page."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from scipy.stats import beta
from threadpoolctl import threadpool_limits

from benchmarks.worlds.catalog import WORLDS
from benchmarks.worlds.measure import Measurement, count_directions, measure
from benchmarks.worlds.page import write_page
from benchmarks.worlds.summary import check_figures, show, tabulate

ROOT = Path(__file__).parents[2]
LINES = ROOT / "benchmarks" / "output" / "worlds.jsonl"
SEEDS = {"seen": (0, 1, 2), "unseen": (7000, 7001, 7002)}
FIRST_LEVEL_SEED = 5000
QUICK = ("column", "three labels", "nothing", "content varies")


def main(options: Sequence[str] = ()) -> None:
    """Measure worlds, all of them by default, and print what the battery must show."""
    arguments = _parse(options)
    names = [name for name in WORLDS if _is_chosen(name, arguments.only)]
    if not names:
        raise SystemExit(f"no world's name contains {arguments.only}: see {', '.join(WORLDS)}")
    if arguments.level:
        measure_level(names, arguments.level, arguments.jobs)
        return
    seeds = SEEDS[arguments.half]
    if arguments.quick:
        names, seeds = [name for name in names if name in QUICK] or names[:1], seeds[:1]
    if arguments.seeds:
        seeds = tuple(arguments.seeds)
    console = Console()
    runs = list(run_all(names, seeds, arguments.jobs, LINES, console, arguments.fresh))
    table = tabulate(runs)
    console.print(_render(show(table)))
    for figure in check_figures(table):
        console.print(figure.write(), style="green" if figure.holds else "red", markup=False)
    seconds = sum(run.fit_seconds + run.diagnose_seconds for run in runs)
    console.print(f"{len(runs)} runs; fit and diagnosis took {seconds:.0f} CPU-seconds")
    if set(names) == set(WORLDS) and seeds == SEEDS[arguments.half]:
        write_page(ROOT, arguments.half, seeds, table)
        console.print("written: results/worlds.json, docs/worlds.md")


def run_all(
    names: Sequence[str],
    seeds: Sequence[int],
    jobs: int,
    lines: Path,
    console: Console,
    fresh: bool = False,
    measure_one: Callable[[str, int], Measurement] = measure,
) -> Iterator[Measurement]:
    """Measurements of every name and seed; those that `lines` holds of the same code are kept."""
    digest = digest_code()
    wanted = {(name, seed) for name in names for seed in seeds}
    kept = {} if fresh else read_lines(lines, digest)
    yield from (run for key, run in kept.items() if key in wanted)
    missing = [(name, seed) for name in names for seed in seeds if (name, seed) not in kept]
    lines.parent.mkdir(parents=True, exist_ok=True)
    if lines.exists() and not lines.read_text().endswith("\n"):
        lines.write_text(lines.read_text() + "\n")  # what an interruption cut short
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of the processes that joblib starts
    work = Parallel(n_jobs=jobs, return_as="generator_unordered")
    done = work(delayed(measure_one)(name, seed) for name, seed in missing)
    with Progress(console=console, transient=True) as progress, threadpool_limits(1):
        task = progress.add_task("worlds", total=len(missing))
        for run in done:
            with lines.open("a") as file:
                file.write(json.dumps({"digest": digest} | run.to_json()) + "\n")
            progress.update(task, advance=1, description=f"{run.world} {run.seed}")
            yield run


def measure_level(
    names: Sequence[str],
    n: int,
    jobs: int,
    count: Callable[[str, int], int] = count_directions,
) -> dict[str, int]:
    """How many of n seeds find a direction in each world where nothing is planted; printed."""
    names = [name for name in names if WORLDS[name].kind == "nothing"]
    seeds = range(FIRST_LEVEL_SEED, FIRST_LEVEL_SEED + n)
    work = Parallel(n_jobs=jobs)(delayed(count)(name, seed) for name in names for seed in seeds)
    found = {
        name: sum(own > 0 for own in work[place * n : (place + 1) * n])
        for place, name in enumerate(names)
    }
    for name, runs in found.items():
        print(f"{name:<36} {runs:>3} of {n}")
    total = sum(found.values())
    low, high = beta.ppf(
        [0.025, 0.975], [total, total + 1], [len(work) - total + 1, len(work) - total]
    )
    print(
        f"a direction was found in {total} of {len(work)} runs with nothing planted: "
        f"{total / len(work):.1%} (95 % interval {np.nan_to_num(low):.1%} to {high:.1%})"
    )
    return found


def read_lines(lines: Path, digest: str) -> dict[tuple[str, int], Measurement]:
    """Finished runs of this code; a line cut short by an interruption is passed over."""
    found: dict[tuple[str, int], Measurement] = {}
    for line in lines.read_text().splitlines() if lines.exists() else []:
        try:
            content: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            continue
        if content.pop("digest") == digest:
            run = Measurement(**content)
            found[run.world, run.seed] = run
    return found


def digest_code() -> str:
    """Twelve hexadecimal digits of the modules that decide a measurement."""
    package = ROOT / "src" / "equipoise"
    files = sorted(package.glob("*.py"))
    for room in (package / "latent", package / "balance", package / "diagnosis"):
        files += sorted(room.rglob("*.py"))
    files += [Path(__file__).with_name(f"{name}.py") for name in _DECIDING]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


_DECIDING = ("catalog", "content", "generate", "measure")


def _parse(options: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks worlds", description=__doc__)
    parser.add_argument("--half", choices=SEEDS, default="seen", help="which range of seeds")
    parser.add_argument("--only", action="append", metavar="TEXT", help="worlds whose name has it")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="other seeds")
    parser.add_argument(
        "--level", type=int, metavar="N", help="only fit, N seeds of nothing planted"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--fresh", action="store_true", help="measure again what is recorded")
    parser.add_argument("--quick", action="store_true", help="four worlds, one seed")
    return parser.parse_args(options)


def _is_chosen(name: str, only: Sequence[str] | None) -> bool:
    return not only or any(text == name if text in WORLDS else text in name for text in only)


def _render(rows: list[dict[str, str]]) -> Table:
    table = Table()
    for column in rows[0]:
        table.add_column(column, justify="left" if column in ("world", "advice") else "right")
    for row in rows:
        table.add_row(*row.values())
    return table
