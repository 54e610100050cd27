"""Tables of results: mean ± spread, the best in bold, the paper's number beside ours."""

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from equipoise.benchmark.selection import RULES, SelectedRun
from equipoise.checks import check_choice
from equipoise.files import write_whole
from equipoise.paper import AVERAGE

SPREADS = {
    "deviation": "standard deviation over seeds",
    "error": "standard error of the mean over seeds",
    "domainbed": "standard error over seeds as DomainBed prints it, its variance divided by n",
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
        divisor = n if spread == "domainbed" else n - 1
        width = math.sqrt(sum((100.0 * a - mean) ** 2 for a in accuracies) / divisor)
        width = width if spread == "deviation" else width / math.sqrt(n)
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
        head = [_escape_markdown(name) for name in (*self.label_names, *self.columns)]
        lines = [f"**{_escape_markdown(self.title)}**", ""]
        lines.append("| " + " | ".join(head) + " |")
        lines.append("|" + "---|" * (len(self.label_names) + len(self.columns)))
        for row in self.rows:
            cells = [_write(cell, "**{}**", "±") for cell in row.cells]
            lines.append("| " + " | ".join((*map(_escape_markdown, row.labels), *cells)) + " |")
        for note in self.notes:
            lines += ["", _escape_markdown(note)]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """A `tabular` for a paper, with booktabs."""
        head = [_escape_latex(name) for name in (*self.label_names, *self.columns)]
        lines = [
            *(f"% {' '.join(note.split())}" for note in (self.title, *self.notes)),
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

    def to_rich(self) -> Table:
        """For the terminal."""
        caption = " ".join(self.notes)
        table = Table(title=escape(self.title), caption=escape(caption) or None)
        for name in self.label_names:
            table.add_column(escape(name))
        for name in self.columns:
            table.add_column(escape(name), justify="right")
        for row in self.rows:
            cells = [_write(cell, "[bold]{}[/bold]", "±") for cell in row.cells]
            table.add_row(*(escape(label) for label in row.labels), *cells)
        return table


def mark_best(rows: Iterable[Row], *, together: int, by_column: bool) -> tuple[Row, ...]:
    """Mark the best cells among rows that agree in their first `together` labels.

    Of each column on its own if `by_column`, else of all columns. As good is what prints alike.
    """
    rows = tuple(rows)
    best: dict[tuple, float] = defaultdict(lambda: -math.inf)

    def key(row: Row, place: int) -> tuple:
        return row.labels[:together], place if by_column else None

    for row in rows:
        for place, cell in enumerate(row.cells):
            if cell is not None:
                best[key(row, place)] = max(best[key(row, place)], round(cell.mean, 1))
    return tuple(
        Row(
            row.labels,
            tuple(
                cell and replace(cell, best=round(cell.mean, 1) == best[key(row, place)])
                for place, cell in enumerate(row.cells)
            ),
        )
        for row in rows
    )


def _write(cell: Cell | None, bold: str, plus_minus: str) -> str:
    if cell is None:
        return MISSING
    mean = f"{cell.mean:.1f}"
    text = bold.format(mean) if cell.best else mean
    if cell.spread is not None:
        text += f" {plus_minus} {cell.spread:.1f}"
    if (difference := cell.difference) is not None:
        sign = "−" if round(difference, 1) < 0 else "+"
        text += f" ({cell.paper:g}, {sign}{abs(difference):.1f})"
    return text


def _escape_markdown(text: str) -> str:
    """Text of one line that no Markdown reader takes for markup, HTML or a cell's end."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|*_`\[\]])", r"\\\1", text)


LATEX = {
    **{special: f"\\{special}" for special in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
}


def _escape_latex(text: str) -> str:
    """Text of one line in which no character is a command."""
    return "".join(LATEX.get(letter, letter) for letter in " ".join(text.split()))


Labels = tuple[str, ...]


def pivot_runs(
    selected: Sequence[SelectedRun],
    *,
    row: Callable[[SelectedRun], Labels],
    column: Callable[[SelectedRun], str],
    columns: Iterable[str] | None = None,
    spread: str = "deviation",
    paper: bool = True,
) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Columns and rows in the order of first appearance; the paper's number where it has one."""
    groups: dict[tuple[Labels, str], list[SelectedRun]] = defaultdict(list)
    for run in selected:
        groups[row(run), column(run)].append(run)
    names = tuple(dict.fromkeys(map(column, selected)) if columns is None else columns)
    cells = {
        place: summarise(
            [run.ood_accuracy for run in group],
            spread=spread,
            paper=group[0].paper_accuracy if paper else None,
        )
        for place, group in groups.items()
    }
    labels = dict.fromkeys(map(row, selected))
    return names, tuple(Row(each, tuple(cells.get((each, n)) for n in names)) for each in labels)


def make_tables(selected: Sequence[SelectedRun], *, spread: str = "deviation") -> list[ResultTable]:
    """A table for each dataset, and with several datasets one of their averages.

    The average of a seed is over all test environments of the dataset that occur; a seed that
    lacks one of them is not in it.
    """
    by_rule = sorted(selected, key=lambda run: list(RULES).index(run.selection))
    datasets = tuple(dict.fromkeys(run.dataset for run in selected))
    tables, averages = [], {}
    for dataset in datasets:
        runs = [run for run in by_rule if run.dataset == dataset]
        environments = sorted({run.test_environment for run in runs}, key=_in_order)
        columns, rows = pivot_runs(
            runs,
            row=_label,
            column=lambda run: run.test_environment,
            columns=environments,
            spread=spread,
        )
        found = averages[dataset] = {
            row.labels: _average([run for run in runs if _label(run) == row.labels], spread)
            for row in rows
        }
        if len(columns) > 1:
            columns = (*columns, AVERAGE)
            rows = tuple(Row(row.labels, (*row.cells, found[row.labels])) for row in rows)
        tables.append(_finish(dataset, columns, rows, runs, spread))
    if len(datasets) > 1 and any(len(table.columns) > 1 for table in tables):
        labels = dict.fromkeys(map(_label, by_rule))
        rows = tuple(Row(each, tuple(averages[d].get(each) for d in datasets)) for each in labels)
        title = "averages over test environments"
        tables.append(_finish(title, datasets, rows, selected, spread))
    return tables


def _in_order(environment: str) -> tuple[float, str]:
    """Numbers by size, then names by the alphabet."""
    try:
        return float(environment), ""
    except ValueError:
        return float("inf"), environment


def _label(run: SelectedRun) -> Labels:
    """What tells the rows apart: rule, algorithm, sampling and the settings asked for."""
    return run.selection, run.algorithm, run.sampling, *map(str, run.by.values())


def _average(group: Sequence[SelectedRun], spread: str) -> Cell | None:
    """Over the test environments of one dataset, then over the seeds that have all of them."""
    by_seed: dict[int, dict[str, float]] = defaultdict(dict)
    for run in group:
        by_seed[run.seed][run.test_environment] = run.ood_accuracy
    n = len({run.test_environment for run in group})
    means = [sum(found.values()) / n for found in by_seed.values() if len(found) == n]
    if not means:
        return None
    # The paper averages over every environment; one or two of them are something else.
    average = replace(group[0], test_environment=AVERAGE)
    return summarise(means, spread=spread, paper=average.paper_accuracy if n > 2 else None)


def _finish(
    title: str, columns: Labels, rows: Sequence[Row], runs: Sequence[SelectedRun], spread: str
) -> ResultTable:
    seeds = len({run.seed for run in runs})
    said = f"± {SPREADS[spread]}, {seeds} of them" if seeds > 1 else "one seed"
    note = (
        f"Out-of-domain accuracy in %, {said}; in brackets the paper's number and the difference. "
        "Columns are the environment left out."
    )
    label_names = ("selection", "algorithm", "batches", *runs[0].by)
    marked = mark_best(rows, together=1, by_column=True)
    return ResultTable(title, label_names, columns, marked, (note,))


def _join_csv(tables: Sequence[ResultTable]) -> str:
    """A line for each cell, for programs, under one header; the title is the first column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    facts = ("mean", "spread", "n", "paper", "difference", "best")
    if tables:
        writer.writerow(("table", *tables[0].label_names, "column", *facts))
    for table in tables:
        for row in table.rows:
            for column, cell in zip(table.columns, row.cells, strict=True):
                if cell is not None:
                    numbers = (cell.mean, cell.spread, cell.n, cell.paper, cell.difference)
                    written = ["" if value is None else f"{value:.6g}" for value in numbers]
                    writer.writerow((table.title, *row.labels, column, *written, int(cell.best)))
    return text.getvalue()


FORMATS: dict[str, Callable[[Sequence[ResultTable]], str]] = {
    "markdown": lambda tables: "\n".join(table.to_markdown() for table in tables),
    "latex": lambda tables: "\n".join(table.to_latex() for table in tables),
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
