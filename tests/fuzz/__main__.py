"""`python -m tests.fuzz`: many random cases of every area, counted, from a seed."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.areas import DRAWS, TABLES, draw_cases
from tests.fuzz.forked import describe, run_cases
from tests.fuzz.good import remove_folder

# Commands take the longest, sweeps the shortest; what is left goes to calls and files.
SHARES = {"calls": 0.4, "files": 0.3, "sweeps": 0.2, "commands": 0.1}


def main() -> int:
    parser = argparse.ArgumentParser(description="Bad inputs for every call, file and command.")
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--area", choices=DRAWS, action="append")
    given = parser.parse_args()
    wrong: dict[str, str] = {}
    total = 0
    try:
        for area in given.area or DRAWS:
            started = time.monotonic()
            cases = list(TABLES[area]()) if area in TABLES else []
            n = round(given.cases * SHARES[area]) - len(cases)
            cases += draw_cases(area, max(0, n), given.seed)
            found = run_cases(cases, seconds=60)
            total += len(cases)
            print(
                f"{area}: {len(cases):,} cases, {len(found)} wrong, "
                f"{time.monotonic() - started:.0f} s",
                flush=True,
            )
            wrong |= found
    finally:
        remove_folder()
    print(f"{total:,} cases; {describe(wrong) if wrong else 'none went wrong'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
