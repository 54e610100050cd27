"""`sweep-NAME.json` among the runs: which of them belong to a sweep."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from equipoise.benchmark.records import RECORDS_VERSION, check_version
from equipoise.benchmark.sweep_plan import PlannedRun
from equipoise.files import write_json


def write_manifest(directory: str | Path, name: str, runs: Sequence[PlannedRun]) -> Path:
    """Write the names of a sweep's runs beside them."""
    path = Path(directory) / f"sweep-{name}.json"
    content = {
        "version": RECORDS_VERSION,
        "sweep": name,
        "runs": {run.name: str(run) for run in runs},
    }
    write_json(path, content)
    return path


def read_manifest(path: str | Path) -> list[Path]:
    """The directories of a sweep's runs."""
    path = Path(path)
    try:
        written = json.loads(path.read_text())
        version, names = written["version"], list(written["runs"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not the file of a sweep ({error!r}); give the directory of the runs, or "
            "the sweep-NAME.json in it"
        ) from error
    check_version(version)
    return [path.parent / name for name in names]
