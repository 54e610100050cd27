"""What an exhibit leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from equipoise.benchmark import ResultTable


@dataclass(frozen=True)
class Exhibit:
    """Tables, what they say in words, and the files written."""

    tables: tuple[ResultTable, ...]
    sentences: tuple[str, ...]
    files: tuple[Path, ...]
