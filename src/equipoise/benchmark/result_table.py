"""A table of results: mean ± spread, the best in bold, the paper's number beside ours."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.markup import escape
from rich.table import Table

from equipoise.choices import check_choice

SPREADS = {
    "deviation": "standard deviation over seeds",
    "error": "standard error of the mean over seeds",
}
MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """A mean in percent over `n` values, and the paper's number for the same."""

    mean: float
    spread: float | None
    n: int
    paper: float | None = None
    best: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.paper is None else self.mean - self.paper


def summarise(
    accuracies: Sequence[float], *, spread: str = "deviation", paper: float | None = None
) -> Cell:
    """The mean and spread of shares from 0 to 1, in percent; no spread of a single one.

    >>> cell = summarise([0.70, 0.72], paper=69.8)
    >>> round(cell.mean, 1), round(cell.spread, 1), round(cell.difference, 1)
    (71.0, 1.4, 1.2)
    """
    check_choice("spread", spread, SPREADS)
    n = len(accuracies)
    mean = 100.0 * sum(accuracies) / n
    width = None
    if n > 1:
        width = math.sqrt(sum((100.0 * a - mean) ** 2 for a in accuracies) / (n - 1))
        width = width / math.sqrt(n) if spread == "error" else width
    return Cell(mean, width, n, paper)


@dataclass(frozen=True)
class Row:
    """Labels that say what the row is, then a cell for each column; None where there is none."""

    labels: tuple[str, ...]
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class ResultTable:
    """A title, rows of cells under named columns, and what must be known to read them."""

    title: str
    label_names: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def to_markdown(self) -> str:
        """A table for a README, notes below."""
        lines = [f"**{self.title}**", ""]
        lines.append("| " + " | ".join((*self.label_names, *self.columns)) + " |")
        lines.append("|" + "---|" * (len(self.label_names) + len(self.columns)))
        for row in self.rows:
            cells = [_write(cell, "**{}**", "±") for cell in row.cells]
            lines.append("| " + " | ".join((*map(_escape_markdown, row.labels), *cells)) + " |")
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """A `tabular` for a paper, with booktabs."""
        head = [_escape_latex(name) for name in (*self.label_names, *self.columns)]
        lines = [
            *(f"% {note}" for note in (self.title, *self.notes)),
            r"\begin{tabular}{" + "l" * len(self.label_names) + "c" * len(self.columns) + "}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            cells = [_write(cell, r"\textbf{{{}}}", r"$\pm$") for cell in row.cells]
            cells = [cell.replace(MISSING, "--").replace("−", "$-$") for cell in cells]
            lines.append(" & ".join((*map(_escape_latex, row.labels), *cells)) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])

    def to_csv(self) -> str:
        """A line for each cell, for programs: mean, spread, n, paper, difference."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        facts = ("mean", "spread", "n", "paper", "difference", "best")
        writer.writerow((*self.label_names, "column", *facts))
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if cell is not None:
                    numbers = (cell.mean, cell.spread, cell.n, cell.paper, cell.difference)
                    written = [_number(value) for value in numbers]
                    writer.writerow((*row.labels, column, *written, int(cell.best)))
        return text.getvalue()

    def to_rich(self) -> Table:
        """For the terminal."""
        caption = " ".join(self.notes)
        table = Table(title=escape(self.title), caption=escape(caption) or None)
        for name in self.label_names:
            table.add_column(name)
        for name in self.columns:
            table.add_column(name, justify="right")
        for row in self.rows:
            cells = [_write(cell, "[bold]{}[/bold]", "±") for cell in row.cells]
            table.add_row(*(escape(label) for label in row.labels), *cells)
        return table


def mark_best(rows: Iterable[Row], *, together: int, by_column: bool) -> tuple[Row, ...]:
    """Mark the best cells among rows that agree in their first `together` labels.

    Of each column on its own if `by_column`, else of all columns. As good is what prints alike.
    """
    rows = tuple(rows)
    best: dict[tuple, float] = {}
    for row in rows:
        for place, cell in enumerate(row.cells):
            if cell is not None:
                key = (row.labels[:together], place if by_column else None)
                best[key] = max(best.get(key, -math.inf), round(cell.mean, 1))
    marked = []
    for row in rows:
        cells = [
            cell
            and replace(
                cell,
                best=round(cell.mean, 1)
                == best[row.labels[:together], place if by_column else None],
            )
            for place, cell in enumerate(row.cells)
        ]
        marked.append(Row(row.labels, tuple(cells)))
    return tuple(marked)


def _write(cell: Cell | None, bold: str, plus_minus: str) -> str:
    if cell is None:
        return MISSING
    mean = f"{cell.mean:.1f}"
    text = bold.format(mean) if cell.best else mean
    if cell.spread is not None:
        text += f" {plus_minus} {cell.spread:.1f}"
    if cell.paper is not None:
        difference = cell.mean - cell.paper
        sign = "−" if round(difference, 1) < 0 else "+"
        text += f" ({cell.paper:g}, {sign}{abs(difference):.1f})"
    return text


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _escape_markdown(text: str) -> str:
    return text.replace("|", r"\|")


def _escape_latex(text: str) -> str:
    for special in "&%$#_{}":
        text = text.replace(special, f"\\{special}")
    return text
