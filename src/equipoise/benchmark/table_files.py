"""Result tables as text and as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from equipoise.benchmark.result_table import ResultTable
from equipoise.choices import check_choice
from equipoise.files import write_whole


def _join_markdown(tables: Sequence[ResultTable]) -> str:
    return "\n".join(table.to_markdown() for table in tables)


def _join_latex(tables: Sequence[ResultTable]) -> str:
    return "\n".join(table.to_latex() for table in tables)


def _join_csv(tables: Sequence[ResultTable]) -> str:
    """One header and the rows of all tables, the title as first column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for position, table in enumerate(tables):
        header, *rows = csv.reader(table.to_csv().splitlines())
        if position == 0:
            writer.writerow(["table", *header])
        writer.writerows([table.title, *row] for row in rows)
    return text.getvalue()


FORMATS: dict[str, Callable[[Sequence[ResultTable]], str]] = {
    "markdown": _join_markdown,
    "latex": _join_latex,
    "csv": _join_csv,
}
ENDINGS = {".md": "markdown", ".tex": "latex", ".csv": "csv"}


def write_tables(
    tables: Sequence[ResultTable], path: str | Path, *, sentences: Sequence[str] = ()
) -> None:
    """Write tables as Markdown, LaTeX or CSV, as the file's ending says.

    `sentences` on what they show come after them, but not into CSV.
    """
    path = Path(path)
    check_choice("ending of a table's file", path.suffix, ENDINGS)
    text = FORMATS[ENDINGS[path.suffix]](tables)
    if path.suffix == ".md":
        text += "".join(f"\n{sentence}\n" for sentence in sentences)
    if path.suffix == ".tex":
        text += "".join(f"% {sentence}\n" for sentence in sentences)
    with write_whole(path) as temporary:
        temporary.write_text(text)
