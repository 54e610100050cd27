"""`python -m benchmarks` runs all, `python -m benchmarks match-growth` one; `--quick` is small.

A module of this folder with a function `run(quick: bool) -> None` is a benchmark.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path


def find_benchmarks() -> dict[str, Callable[[bool], None]]:
    """Name -> function, for every module that has one."""
    found = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not module.name.startswith("_"):
            run = getattr(importlib.import_module(f"benchmarks.{module.name}"), "run", None)
            if run is not None:
                found[module.name.replace("_", "-")] = run
    return found


def main() -> None:
    benchmarks = find_benchmarks()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(benchmarks))
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - set(benchmarks))
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}: expected one of {', '.join(benchmarks)}")
    for name in arguments.names or benchmarks:
        print(f"\n== {name} ==", flush=True)
        benchmarks[name](arguments.quick)


if __name__ == "__main__":
    main()
