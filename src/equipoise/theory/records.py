"""Running the cases of an experiment, each kept as soon as it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.files import write_whole
from equipoise.progress import track

Record = dict[str, Any]


def run_cases(
    cases: Sequence[Any],
    work: Callable[[Any], Record],
    path: str | Path,
    *,
    description: str,
    n_jobs: int = 1,
    verbose: bool = True,
) -> list[Record]:
    """Do `work` for every case (a frozen dataclass) that `path` has no record of yet.

    Records are JSON lines: what the case was, and what was measured. The file is rewritten whole
    after every case, so an interrupted experiment goes on where it stopped; the answer is in the
    order of the cases, whoever finished first. A case is known by all its settings.
    """
    path = Path(path)
    done = read_records(path)
    wanted = {_key(asdict(case)): case for case in cases}
    missing = [case for key, case in wanted.items() if key not in done]
    with track(len(wanted), description, enabled=verbose) as tracker:
        tracker.reach(len(wanted) - len(missing))
        answers = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
            delayed(_carry_out)(work, case) for case in missing
        )
        for case, measured in answers:
            done[_key(asdict(case))] = {"case": asdict(case), **measured}
            _write(path, list(done.values()))
            tracker.reach(sum(key in done for key in wanted), str(case))
    return [done[key] for key in wanted]


def read_records(path: str | Path) -> dict[str, Record]:
    """The records in a file, by their case; empty if there is none."""
    path = Path(path)
    if not path.is_file():
        return {}
    try:
        records = [json.loads(line) for line in path.read_text().splitlines() if line]
        return {_key(record["case"]): record for record in records}
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a readable file of records ({error}): delete it to start over"
        ) from error


def _carry_out(work: Callable[[Any], Record], case: Any) -> tuple[Any, Record]:
    """One thread: the networks are small, and the other cores have cases of their own."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return case, work(case)
    finally:
        torch.set_num_threads(before)


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


def _write(path: Path, records: list[Record]) -> None:
    with write_whole(path) as temporary:
        temporary.write_text("".join(json.dumps(record) + "\n" for record in records))
