"""How every experiment runs and ends: cases kept one by one; a table, a plot and a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from equipoise.files import DamagedFile, read_line, write_json, write_line, write_whole
from equipoise.progress import track
from equipoise.report import save_figure

Record = dict[str, Any]
# Tables by title, a plot, whether the theorem's promise was met, and the finding in words.
Judgement = tuple[dict[str, pd.DataFrame], Figure, bool, str]

NOT_AS_PROMISED = "Not as promised. "
QUICK = "A quick look, not a result. "  # its sizes are too small to judge by


@dataclass(frozen=True)
class Experiment:
    """Cases to measure, and what their records say together.

    `list_cases(seed, quick)` gives frozen dataclasses, `measure(case)` a record of each, and
    `judge(records, seed, quick)` the judgement of all, as `frame_records` has them.
    """

    name: str
    list_cases: Callable[[int, bool], Sequence[Any]]
    measure: Callable[[Any], Record]
    judge: Callable[[pd.DataFrame, int, bool], Judgement]

    def run(
        self,
        output: str | Path,
        *,
        seed: int = 0,
        quick: bool = False,
        n_jobs: int = 1,
        verbose: bool = True,
    ) -> Outcome:
        """Measure, judge and save; interrupted, the same call goes on where it stopped."""
        records = run_cases(
            self.list_cases(seed, quick),
            self.measure,
            Path(output) / "records.jsonl",
            description=self.name,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        tables, figure, holds, words = self.judge(frame_records(records), seed, quick)
        mark = QUICK if quick else "" if holds else NOT_AS_PROMISED
        outcome = Outcome(self.name, tables, figure, mark + words, holds)
        outcome.save(output)
        return outcome


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
            with write_whole(path) as temporary:
                temporary.write_text("".join(map(write_line, done.values())))
            tracker.reach(sum(key in done for key in wanted), str(case))
    return [done[key] for key in wanted]


def frame_records(records: list[Record]) -> pd.DataFrame:
    """A row for every record: the settings of its case, and what was measured."""
    return pd.DataFrame([{**record["case"], **record} for record in records])


def read_records(path: str | Path) -> dict[str, Record]:
    """The records in a file, by their case; empty if there is none."""
    path = Path(path)
    if not path.is_file():
        return {}
    try:
        records = [read_line(line) for line in path.read_bytes().splitlines()]
        return {_key(record["case"]): record for record in records}
    except (ValueError, KeyError, RecursionError) as error:
        raise DamagedFile(
            f"{path} is not a readable file of records ({error}): delete it to start over"
        ) from error


def _carry_out(work: Callable[[Any], Record], case: Any) -> tuple[Any, Record]:
    """One thread: the networks are small, and the other cores have cases of their own."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            return case, work(case)
    finally:
        torch.set_num_threads(before)


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)


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
            console.print(f"[bold]{escape(title)}[/bold]", highlight=False)
            for part in _fit_columns(table, console.width):
                console.print(part)
        console.print(self.sentence, markup=False, highlight=False)


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
