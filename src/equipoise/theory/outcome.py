"""How every experiment ends: a table, a plot and a sentence in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from equipoise.files import write_json, write_whole
from equipoise.report import save_figure

NOT_AS_PROMISED = "Not as promised. "


@dataclass(frozen=True)
class Outcome:
    """What an experiment found. `holds` says whether the theorem's promise was met."""

    name: str
    tables: dict[str, pd.DataFrame]
    figure: Figure
    sentence: str
    holds: bool

    def save(self, output: str | Path) -> None:
        """Write a .csv for each table, plot.png and outcome.json into a directory."""
        output = Path(output)
        for title, table in self.tables.items():
            with write_whole(output / f"{title.replace(' ', '-')}.csv") as temporary:
                table.to_csv(temporary, index=False)
        save_figure(self.figure, output / "plot.png")
        facts = {"experiment": self.name, "holds": self.holds, "sentence": self.sentence}
        write_json(output / "outcome.json", facts)

    def show(self, console: Console) -> None:
        """Print the tables and the sentence."""
        for title, table in self.tables.items():
            console.print(f"[bold]{title}[/bold]", highlight=False)
            for part in _fit_columns(table, console.width):
                console.print(part)
        console.print(self.sentence, markup=False, highlight=False)


def mark_quick(sentence: str) -> str:
    """The sentence of a quick look, whose sizes are too small to judge by."""
    return f"A quick look, not a result. {sentence.removeprefix(NOT_AS_PROMISED)}"


def _fit_columns(table: pd.DataFrame, width: int) -> Iterator[Table]:
    """The table in as many parts as the terminal needs; the first column stands in each."""
    cells = {str(name): [show_value(value) for value in table[name]] for name in table.columns}
    wide = {name: 3 + max(map(len, [name, *values])) for name, values in cells.items()}
    first, *others = cells
    while others:
        taken = [first, others.pop(0)]
        while others and sum(wide[name] for name in [*taken, others[0]]) < width:
            taken.append(others.pop(0))
        part = Table()
        for name in taken:
            number = pd.api.types.is_numeric_dtype(table[name])
            part.add_column(name, justify="right" if number else "left")
        for row in zip(*(cells[name] for name in taken), strict=True):
            part.add_row(*row)
        yield part


def show_value(value: object) -> str:
    """A cell of a table: three digits for a measure, words for truth, a dash for nothing.

    >>> show_value(0.12345), show_value(2e-5), show_value(True), show_value(None), show_value(7)
    ('0.123', '2.0e-05', 'yes', '–', '7')
    """
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1e}" if 1e-12 < abs(value) < 0.0005 else f"{round(value, 3) + 0.0:.3f}"
    return str(value)
