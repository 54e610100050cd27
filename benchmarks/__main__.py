"""`python -m benchmarks` runs all, `python -m benchmarks match-growth` one; `--quick` is small.

A module of this folder with `run(quick)` is a benchmark, or several with `BENCHMARKS`. One with
`main(options)` alone reads options of its own, as in `python -m benchmarks worlds --half seen`.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path


def find_benchmarks() -> dict[str, Callable[[list[str]], None]]:
    """Name -> function of the options."""
    found: dict[str, Callable[[list[str]], None]] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("_"):
            continue
        content = importlib.import_module(f"benchmarks.{module.name}")
        name = module.name.replace("_", "-")
        runs = getattr(
            content, "BENCHMARKS", {name: content.run} if hasattr(content, "run") else {}
        )
        found |= {own: partial(_run_plain, own, run) for own, run in runs.items()}
        if not runs and hasattr(content, "main"):
            found[name] = content.main
    return found


def _run_plain(name: str, run: Callable[[bool], None], options: list[str]) -> None:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=run.__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about a minute")
    run(parser.parse_args(options).quick)


def main(words: list[str]) -> None:
    """Run the benchmarks that are named, all by default; the other words are their options."""
    benchmarks = find_benchmarks()
    if {"-h", "--help"} & set(words[:1]):
        print(f"{__doc__}\nbenchmarks: {', '.join(benchmarks)}")
        return
    names: list[str] = []
    while words and not words[0].startswith("-") and (not names or words[0] in benchmarks):
        names.append(words.pop(0))
    unknown = sorted(set(names) - set(benchmarks))
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}: expected one of {', '.join(benchmarks)}")
    for name in names or benchmarks:
        print(f"\n== {name} ==", flush=True)
        benchmarks[name](list(words))


if __name__ == "__main__":
    main(sys.argv[1:])
