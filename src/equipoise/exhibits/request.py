"""What every exhibit is asked for, how it gets its runs, and where it leaves what it finds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console

from equipoise import __version__
from equipoise.balancer import CausalBalancer
from equipoise.benchmark import (
    Adjustment,
    InlineWorker,
    LocalWorkers,
    ResultTable,
    RunData,
    RunSettings,
    SelectedRun,
    SweepResult,
    SweepSpec,
    choose_cache,
    digest_code,
    merge_settings,
    obtain_balancer,
    plan_sweep,
    run_sweep,
    select_runs,
    split_for_run,
    write_tables,
)
from equipoise.checks import check_choice
from equipoise.data import get_dataset
from equipoise.files import write_json
from equipoise.paper import list_paper_datasets, paper_settings
from equipoise.report import save_figure


@dataclass(frozen=True)
class Exhibit:
    """Tables, what they say in words, and the files written."""

    tables: tuple[ResultTable, ...]
    sentences: tuple[str, ...]
    files: tuple[Path, ...]


# What the exhibits on coloured digits share.
SAMPLINGS = ("random", "balanced")
TEST_ENVIRONMENT = 2  # e = 0.9
RULES = ("balanced", "train-domain", "test-domain")
RECORD = ("dataset", "algorithm", "sampling", "seed", "selection", "ood_accuracy", "step")
CEILING = 75.0

# The recipe behind each profile of an exhibit.
PROFILES = {"quick": "quick", "paper": "domainbed"}


@dataclass(frozen=True, kw_only=True)
class ExhibitRequest:
    """How to make an exhibit again.

    Parameters
    ----------
    output, runs : Path
        Where table, plot and records go, and where the runs are; finished ones stay.
    profile : str
        "quick", or "paper" for the published protocol and the paper's own settings.
    seeds : int
        How many, from 0.
    workers : int
        Runs at the same time; 0 trains in this process.
    features : Path, optional
        Of Table 2 alone: a saved dataset of frozen features.
    settings : dict
        Further settings of every run, for example ``{"steps": 100}``.
    """

    output: Path
    runs: Path = Path("runs")
    profile: str = "quick"
    seeds: int = 3
    workers: int = 1
    data_dir: Path | None = None
    features: Path | None = None
    device: str = "cpu"
    settings: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = True
    console: Console | None = None

    def __post_init__(self) -> None:
        check_choice("profile", self.profile, PROFILES)
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")

    def describe_sweep(
        self,
        datasets: Sequence[str],
        algorithms: Sequence[str] = ("ERM",),
        samplings: Sequence[str] = SAMPLINGS,
        *,
        settings: Mapping[str, Any] | None = None,
        **lists: Any,
    ) -> SweepSpec:
        """The sweep behind an exhibit: its lists and settings, this request's seeds and profile.

        The exhibit's own settings are what it varies, and come before everything else. Under the
        profile "paper" its settings are the paper's, where these are known.
        """
        papers = [
            Adjustment(
                only={"dataset": dataset, "algorithm": algorithm},
                settings=merge_settings(paper_settings(dataset, algorithm), self.settings),
            )
            for dataset, algorithm in product(datasets, algorithms)
            if self.profile == "paper" and dataset in list_paper_datasets()
        ]
        own = {"seeds": tuple(range(self.seeds)), "test_environments": (TEST_ENVIRONMENT,)}
        return SweepSpec(
            datasets=tuple(datasets),
            algorithms=tuple(algorithms),
            samplings=tuple(samplings),
            profile=PROFILES[self.profile],
            settings=self.settings,
            adjustments=(*papers, Adjustment(only={}, settings=settings or {})),
            **{**own, **lists},
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
            workers=LocalWorkers(self.workers) if self.workers else InlineWorker(),
            data_dir=self.data_dir,
            device=self.device,
            verbose=self.verbose,
            console=self.console,
        )
        if not swept.results:
            reason = next(iter(swept.errors.values()))
            raise ValueError(f"every run failed, the first with {reason}")
        return swept

    def vary(
        self, dataset: str, sampling: str, setting: str, points: Sequence[Any]
    ) -> tuple[SweepResult, list[SelectedRun]]:
        """Sweep ERM with a setting at each of the points; runs by rule, then by point."""
        outer, _, inner = setting.partition(".")
        swept = self.sweep(
            *(
                self.describe_sweep(
                    (dataset,),
                    samplings=(sampling,),
                    settings={outer: {inner: point} if inner else point},
                )
                for point in points
            )
        )
        selected = select_runs(swept.finished(), RULES, by=(setting,))
        places = [(rule, point) for rule in RULES for point in points]
        selected.sort(key=lambda run: places.index((run.selection, run.by[setting])))
        return swept, selected

    def describe(self, exhibit: str) -> dict[str, Any]:
        """How the records of an exhibit were made, and by which code."""
        return {
            "exhibit": exhibit,
            "profile": self.profile,
            "seeds": self.seeds,
            "settings": dict(self.settings),
            **({"features": self.features.name} if self.features else {}),
            "equipoise": __version__,
            "code": digest_code(),
        }

    def write(
        self,
        exhibit: str,
        *,
        records: Any,
        tables: Sequence[ResultTable],
        figure: Figure,
        sentences: Sequence[str] = (),
        swept: SweepResult | None = None,
    ) -> Exhibit:
        """Write records, tables and plot as OUTPUT/EXHIBIT-PROFILE.*, and say which runs failed."""
        if swept is not None and swept.errors:
            few = "; ".join(dict.fromkeys(list(swept.errors.values())[:3]))
            failed = f"{len(swept.errors)} runs failed and are not in the numbers: {few}."
            sentences = (*sentences, failed)
        files = {
            ending: self.output / f"{exhibit}-{self.profile}.{ending}"
            for ending in ("json", "md", "tex", "csv", "png")
        }
        write_json(files["json"], {**self.describe(exhibit), "records": records})
        for ending in ("md", "tex", "csv"):
            write_tables(tables, files[ending], sentences=sentences)
        save_figure(figure, files["png"])
        return Exhibit(tuple(tables), tuple(sentences), tuple(files.values()))


def as_record(run: SelectedRun) -> dict[str, Any]:
    """The published form of a number: what it is of, and `ood_accuracy` from 0 to 1."""
    return {**{name: getattr(run, name) for name in RECORD}, **run.by}


def fit_exhibit(
    request: ExhibitRequest, dataset: str, *, balance_on: str | None = None
) -> tuple[dict[str, RunSettings], RunData, CausalBalancer]:
    """Settings by sampling, data, and the balancer of the first seed, as runs of Table 1 use it."""
    runs = plan_sweep(request.describe_sweep((dataset,), seeds=(0,)), data_dir=request.data_dir)
    settings = {run.settings.sampling: run.settings for run in runs}
    chosen = settings["balanced"]
    if balance_on is not None:
        chosen = replace(chosen, balancer={**chosen.balancer, "balance_on": balance_on})
        settings["balanced"] = chosen
    opened = get_dataset(dataset, data_dir=request.data_dir, data_seed=chosen.data_seed)
    data = split_for_run(chosen, opened)
    balancer = obtain_balancer(
        chosen,
        data,
        choose_cache(request.runs / runs[0].name),
        device=request.device,
        verbose=request.verbose,
    )
    return settings, data, balancer
