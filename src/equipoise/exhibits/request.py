"""What every exhibit is asked for, how it gets its runs, and where it leaves what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from equipoise.benchmark import (
    Adjustment,
    InlineWorker,
    LocalWorkers,
    ResultTable,
    SweepResult,
    SweepSpec,
    Workers,
    merge_settings,
    plan_sweep,
    run_sweep,
    write_tables,
)
from equipoise.choices import check_choice
from equipoise.exhibits.exhibit import Exhibit
from equipoise.files import write_json
from equipoise.paper import list_paper_datasets, paper_settings
from equipoise.report import save_figure

# The recipe behind each profile of an exhibit.
PROFILES = {"quick": "quick", "paper": "domainbed"}


@dataclass(frozen=True, kw_only=True)
class ExhibitRequest:
    """How to make an exhibit again.

    Parameters
    ----------
    output : where table, plot and records go
    runs : where the runs are; finished ones are not trained again
    profile : "quick", or "paper" for the published protocol and the paper's own settings
    seeds : how many, from 0
    workers : runs at the same time; 0 trains in this process
    settings : further settings of every run, for example ``{"steps": 100}``
    """

    output: Path
    runs: Path = Path("runs")
    profile: str = "quick"
    seeds: int = 3
    workers: int = 1
    data_dir: Path | None = None
    device: str = "cpu"
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = True
    console: Console | None = None

    def __post_init__(self) -> None:
        check_choice("profile", self.profile, PROFILES)
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def describe_sweep(
        self, *, settings: Mapping[str, Any] | None = None, **lists: Any
    ) -> SweepSpec:
        """The sweep behind an exhibit: its lists and settings, this request's seeds and profile.

        The exhibit's own settings are what it varies, and come before everything else.
        """
        own = Adjustment(only={}, settings=settings or {})
        return SweepSpec(
            profile=PROFILES[self.profile],
            settings=self.settings,
            adjustments=(*self._take_papers(lists["datasets"], lists["algorithms"]), own),
            **{"seeds": tuple(range(self.seeds)), **lists},
        )

    def _take_papers(
        self, datasets: Sequence[str], algorithms: Sequence[str]
    ) -> tuple[Adjustment, ...]:
        """The paper's settings, where they are asked for and known; given ones stay."""
        if self.profile != "paper":
            return ()
        return tuple(
            Adjustment(
                only={"dataset": dataset, "algorithm": algorithm},
                settings=merge_settings(paper_settings(dataset, algorithm), self.settings),
            )
            for dataset in datasets
            if dataset in list_paper_datasets()
            for algorithm in algorithms
        )

    def sweep(self, *specs: SweepSpec) -> SweepResult:
        """Carry out the runs of one sweep or several, together; one at least must succeed."""
        planned = {
            run.name: run for spec in specs for run in plan_sweep(spec, data_dir=self.data_dir)
        }
        swept = run_sweep(
            # The first seed of everything before the second of anything.
            sorted(planned.values(), key=lambda run: run.settings.seed),
            self.runs,
            workers=self._choose_workers(),
            data_dir=self.data_dir,
            device=self.device,
            verbose=self.verbose,
            console=self.console,
        )
        if not swept.results:
            reason = next(iter(swept.errors.values()))
            raise ValueError(f"every run failed, the first with {reason}")
        return swept

    def _choose_workers(self) -> Workers:
        return LocalWorkers(self.workers) if self.workers else InlineWorker()

    def write(
        self,
        exhibit: str,
        *,
        records: Any,
        tables: Sequence[ResultTable],
        figure: Figure,
        sentences: Sequence[str] = (),
    ) -> Exhibit:
        """Write records, tables and plot as OUTPUT/EXHIBIT-PROFILE.*"""
        stem = self.output / f"{exhibit}-{self.profile}"
        files = {ending: stem.with_name(f"{stem.name}.{ending}") for ending in ENDINGS}
        write_json(files["json"], records)
        for ending in ("md", "tex", "csv"):
            write_tables(tables, files[ending], sentences=sentences)
        save_figure(figure, files["png"])
        return Exhibit(tuple(tables), tuple(sentences), tuple(files.values()))


ENDINGS = ("json", "md", "tex", "csv", "png")


def tell_failures(swept: SweepResult) -> tuple[str, ...]:
    """What a reader must know of runs that are not in the numbers."""
    if not swept.errors:
        return ()
    few = "; ".join(dict.fromkeys(list(swept.errors.values())[:3]))
    return (f"{len(swept.errors)} runs failed and are not in the numbers: {few}.",)
