"""What every exhibit is asked for, and how it gets its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from equipoise.benchmark.local_workers import LocalWorkers
from equipoise.benchmark.result_table import ResultTable
from equipoise.benchmark.sweep import SweepResult, run_sweep
from equipoise.benchmark.sweep_plan import plan_sweep
from equipoise.benchmark.sweep_spec import Adjustment, SweepSpec
from equipoise.benchmark.table_files import write_tables
from equipoise.choices import check_choice
from equipoise.files import write_json
from equipoise.paper import list_paper_datasets, paper_settings

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
    workers : runs at the same time
    settings : further settings of every run, for example ``{"steps": 100}``
    """

    output: Path
    runs: Path = Path("runs")
    profile: str = "quick"
    seeds: int = 3
    workers: int = 1
    data_dir: Path | None = None
    device: str = "cpu"
    settings: Mapping[str, Any] | None = None
    imports: tuple[str, ...] = ()
    verbose: bool = True
    console: Console | None = None

    def __post_init__(self) -> None:
        check_choice("profile", self.profile, PROFILES)
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def describe_sweep(
        self, *, settings: Mapping[str, Any] | None = None, **lists: Any
    ) -> SweepSpec:
        """The sweep behind an exhibit: its lists, this request's seeds and profile."""
        return SweepSpec(
            profile=PROFILES[self.profile],
            seeds=tuple(range(self.seeds)),
            settings={**(settings or {}), **(self.settings or {})},
            adjustments=self._adjust(lists["datasets"], lists["algorithms"]),
            imports=self.imports,
            **lists,
        )

    def _adjust(self, datasets: Sequence[str], algorithms: Sequence[str]) -> tuple[Adjustment, ...]:
        """The paper's settings, where they are asked for and known."""
        if self.profile != "paper":
            return ()
        return tuple(
            Adjustment(
                only={"dataset": dataset, "algorithm": algorithm},
                settings=paper_settings(dataset, algorithm),
            )
            for dataset in datasets
            if dataset in list_paper_datasets()
            for algorithm in algorithms
        )

    def sweep(self, *specs: SweepSpec) -> SweepResult:
        """Carry out the runs of one sweep or several, together."""
        planned = {
            run.name: run for spec in specs for run in plan_sweep(spec, data_dir=self.data_dir)
        }
        return run_sweep(
            # The first seed of everything before the second of anything.
            sorted(planned.values(), key=lambda run: run.settings.seed),
            self.runs,
            workers=LocalWorkers(self.workers),
            imports=self.imports,
            data_dir=self.data_dir,
            device=self.device,
            verbose=self.verbose,
            console=self.console,
        )

    def path(self, exhibit: str, ending: str) -> Path:
        """Where a file of the exhibit goes."""
        return self.output / f"{exhibit}-{self.profile}.{ending}"

    def write(self, exhibit: str, records: Sequence[Mapping[str, Any]], table: ResultTable) -> None:
        """Write the records, and the table as Markdown, LaTeX and CSV."""
        write_json(self.path(exhibit, "json"), list(records))
        for ending in ("md", "tex", "csv"):
            write_tables([table], self.path(exhibit, ending))
