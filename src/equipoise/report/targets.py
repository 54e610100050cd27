"""What a command was pointed at, a run or a saved balancer, and one picture of it by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from equipoise.balance import POOLED
from equipoise.balancer import CausalBalancer
from equipoise.benchmark import (
    RunDescription,
    RunDirectory,
    choose_cache,
    find_balancer,
    needs_balancer,
    split_for_run,
)
from equipoise.choices import check_choice
from equipoise.data import EnvironmentDataset, check_dataset, get_dataset
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.latent import LatentCovariateModel
from equipoise.report.figures import (
    plot_counterfactuals,
    plot_cross,
    plot_effects,
    plot_gallery,
    plot_love,
    plot_overlap,
    plot_reuse,
    plot_situations,
    plot_traversals,
    plot_tuning,
)
from equipoise.report.images import is_image
from equipoise.report.latent_views import decode_counterfactuals, measure_effects, traverse_latent
from equipoise.report.paper import draw_figure
from equipoise.report.pictures import Part
from equipoise.report.run import RunStory, plot_confusions, plot_training, tell_run
from equipoise.report.study import Study, choose_anchors, make_study, show_anchors

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BALANCER_FILE = "balancer.safetensors"
N_EXAMPLES, N_SAMPLED = 10, 1000


@dataclass(frozen=True)
class Target:
    """What there is to show: `missing` says in words what could not be found.

    `examples` are those of the data that the balancer knows, with `labels` and `environments`
    as it knows them; None where there are no data.
    """

    folder: Path
    balancer: CausalBalancer | None
    examples: EnvironmentDataset | None = None
    labels: NDArray | None = None
    environments: NDArray | None = None
    run: RunStory | None = None
    missing: tuple[str, ...] = ()


def open_target(
    path: str | Path,
    dataset: EnvironmentDataset | None = None,
    *,
    data_dir: str | Path | None = None,
    cache: str | Path | None = None,
    device: str = "cpu",
) -> Target:
    """Open the directory of a run, a saved balancer, or a directory that holds one.

    A run knows its data by name or path; a balancer needs them as `dataset` to show examples.
    """
    path = Path(path)
    file = path / BALANCER_FILE if path.is_dir() else path
    if file.is_file():
        return _open_balancer(file, dataset, device)
    if not (path / "settings.json").is_file():
        raise ValueError(
            f"{path} is neither the directory of a run (with settings.json) nor a saved balancer "
            f"(a .safetensors file, or a directory with {BALANCER_FILE})"
        )
    description = RunDirectory(path).describe()
    dataset = dataset or _find_data(description, data_dir)
    if dataset is None:
        lacks = (
            f"the data of this run, {description.settings.dataset!r}, are not at hand, so only "
            "its records are shown: name them with --data",
        )
        return Target(path, None, run=tell_run(path), missing=lacks)
    return _open_run(path, description, dataset, None if cache is None else Path(cache), device)


def _open_balancer(file: Path, dataset: EnvironmentDataset | None, device: str) -> Target:
    balancer = CausalBalancer.load(file)
    balancer.device = device
    balancer.latent_model_.to(device)
    if dataset is None:
        lacks = "the examples are not at hand, so none are shown: name them with --data"
        return Target(file.parent, balancer, missing=(lacks,))
    classes, fitted = (
        values if names is None else np.asarray(names)
        for values, names in (
            (balancer.classes_, balancer.names_.labels),
            (balancer.environments_, balancer.names_.environments),
        )
    )
    labels = _speak_as(classes, dataset.labels, dataset.label_names)
    sites = _speak_as(fitted, dataset.environments, dataset.environment_names)
    # An environment may have been left out when the balancer was fitted.
    known = np.flatnonzero(np.isin(sites, fitted))
    if not len(known):
        raise ValueError(
            f"{file} was fitted on environments {fitted.tolist()}, but the data "
            f"have {list(dataset.environment_names)}: name the data that it was fitted on"
        )
    return Target(file.parent, balancer, dataset.subset(known), labels[known], sites[known])


def _speak_as(known: NDArray, codes: NDArray[np.int64], names: tuple[str, ...]) -> NDArray:
    """Codes where the balancer was fitted on a dataset's codes, else the names, as it has them."""
    if known.dtype.kind in "iu" and int(known.max()) < len(names):
        return codes
    if known.dtype.kind == "U":  # as long as they are: a dtype of shorter names would cut them
        return np.asarray(names)[codes]
    try:
        return np.asarray(names).astype(known.dtype)[codes]
    except ValueError:
        return np.asarray(names)[codes]


def _open_run(
    path: Path,
    description: RunDescription,
    dataset: EnvironmentDataset,
    cache: Path | None,
    device: str,
) -> Target:
    data = split_for_run(description.settings, dataset)
    if data.fingerprint != description.data:
        raise ValueError(
            f"these are not the data that {path} was trained on: their examples differ. Name "
            "those with --data"
        )
    balancer, lacks = None, []
    if needs_balancer(description.settings, data):
        place = choose_cache(path) if cache is None else cache
        balancer = find_balancer(
            description.settings, data, place, device=device, code=description.code
        )
        if balancer is None:
            lacks.append(
                f"the balancer of this run is not in {place}, so its balance is not shown: say "
                "where it is with --cache"
            )
    story = tell_run(path, data, balancer=balancer, device=device)
    labels, sites = data.train.labels, data.train.environments
    return Target(path, balancer, data.train, labels, sites, story, tuple(lacks))


def _find_data(
    description: RunDescription, data_dir: str | Path | None
) -> EnvironmentDataset | None:
    settings = description.settings
    try:
        check_dataset(settings.dataset, data_dir=data_dir)
    except ValueError:  # data that were handed over in Python, or that are no longer there
        return None
    return get_dataset(settings.dataset, data_dir=data_dir, data_seed=settings.data_seed)


# --- one picture by name -----------------------------------------------------------------------


@dataclass(frozen=True)
class Subject:
    """A target as plots ask for it; what it lacks is a ValueError that says so."""

    target: Target
    environment: str | None
    seed: int

    @cached_property
    def _study(self) -> Study:
        target, balancer = self.target, self.target.balancer
        if balancer is None:
            raise ValueError("; ".join(target.missing) or "this run has no balancer")
        found = balancer.examine(target.examples, target.labels, target.environments)
        return make_study(balancer, found, balancer.diagnose(found))

    @property
    def diagnostics(self) -> BalanceDiagnostics:
        return self._study.diagnostics

    @property
    def study(self) -> Study:
        """The study, with its examples at hand."""
        if self._study.source is None:
            raise ValueError("; ".join(self.target.missing))
        return self._study

    @property
    def model(self) -> LatentCovariateModel:
        """The model of Z."""
        model = self.study.model
        if model is None:
            raise ValueError("this balancer fitted no model of Z, so there is nothing to decode")
        return model

    @property
    def run(self) -> RunStory:
        if self.target.run is None:
            raise ValueError(f"{self.target.folder} is not a run: there are no records to plot")
        return self.target.run

    def choose_place(self, *, pooled: bool) -> str:
        """The environment asked for, else all together or the first."""
        names = self.diagnostics.environment_names
        if self.environment is None:
            return POOLED if pooled else names[0]
        return check_choice("environment", self.environment, names)

    def draw_rows(self) -> NDArray[np.int64]:
        """A sample of the examples to look at the model with."""
        return self.study.draw_rows(N_SAMPLED, np.random.default_rng([self.seed, 0x9107]))

    def draw_anchors(self) -> NDArray[np.int64]:
        """Examples to show, of all labels and environments."""
        generator = np.random.default_rng([self.seed, 0x9107])
        return choose_anchors(self.study.labels, self.study.environments, N_EXAMPLES, generator)

    def take_images(self, kind: str) -> Study:
        """The study, if its examples can be looked at."""
        if not is_image(self.study.input_shape):
            raise ValueError(
                f"{kind} shows pictures, but these examples are rows of a table: plot "
                "counterfactuals, or see the report"
            )
        return self.study


def _plot_situations(subject: Subject) -> list[Part]:
    """accuracy as things are, even and reversed, of plain and balanced training"""
    situations = getattr(subject.diagnostics, "situations", None)
    if situations is None or situations[["plain", "balanced"]].isna().all(axis=None):
        raise ValueError("price and protection were not measured: give the examples with --data")
    return [plot_situations(situations)]


def _plot_love(subject: Subject) -> list[Part]:
    """Love plot: how far labels differ in every covariate, before and after"""
    worst, place = subject.diagnostics.worst, subject.choose_place(pooled=True)
    return [plot_love(worst[worst["environment"] == place], place=place)]


def _plot_tables(subject: Subject) -> list[Part]:
    """label × covariate, of random and of balanced batches"""
    cross = subject.diagnostics.cross
    if not len(cross):
        raise ValueError("no covariate is known to make a table of")
    name = cross["covariate"].iloc[0]
    place = subject.choose_place(pooled=True)
    chosen = (cross["covariate"] == name) & (cross["environment"] == place)
    return list(plot_cross(cross[chosen], covariate=str(name)))


def _plot_overlap(subject: Subject) -> list[Part]:
    """scores of two labels at a time, of the pairs that overlapped least"""
    return list(plot_overlap(subject.diagnostics, subject.choose_place(pooled=False)))


def _plot_gallery(subject: Subject) -> list[Part]:
    """anchors with their nearest match of each label"""
    study = subject.take_images("gallery")
    n_labels = len(study.label_names)
    anchors = show_anchors(study.matches, subject.draw_anchors(), n_labels=n_labels, per_label=1)
    return [plot_gallery(study, anchors)]


def _plot_counterfactuals(subject: Subject) -> list[Part]:
    """examples decoded with z kept and y changed; of a table, what y and z do to its features"""
    study = subject.study
    if not is_image(study.input_shape):
        effects = measure_effects(subject.model, *study.take(subject.draw_rows()))
        return list(plot_effects(effects, study))
    rows = subject.draw_anchors()
    found = decode_counterfactuals(subject.model, *study.take(rows))
    return [plot_counterfactuals(found, study.labels[rows], study.label_names)]


def _plot_traversals(subject: Subject) -> list[Part]:
    """pictures as one z moves at a time"""
    study, rows = subject.take_images("traversals"), subject.draw_rows()
    found = traverse_latent(subject.model, *study.take(rows))
    return [plot_traversals(found, study.examples.fetch(rows[:N_EXAMPLES]))]


def _plot_reuse(subject: Subject) -> list[Part]:
    """how many examples balanced batches show how often"""
    return [plot_reuse(subject.diagnostics.reuse)]


def _plot_tuning(subject: Subject) -> list[Part]:
    """balance against the number of matches and against the caliper"""
    panels = plot_tuning(subject.diagnostics)
    if not panels:
        raise ValueError("there is nothing to compare: every match is at the same distance")
    return list(panels)


def _plot_curves(subject: Subject) -> list[Part]:
    """of a run: accuracies over training, and the checkpoints chosen"""
    return [plot_training(subject.run)]


def _plot_confusions(subject: Subject) -> list[Part]:
    """of a run: which labels are taken for which"""
    if not subject.run.confusions:
        raise ValueError("; ".join(subject.target.missing) or "this run has no weights yet")
    return list(plot_confusions(subject.run))


PLOTS: dict[str, Callable[[Subject], list[Part]]] = {
    "situations": _plot_situations,
    "love": _plot_love,
    "tables": _plot_tables,
    "overlap": _plot_overlap,
    "gallery": _plot_gallery,
    "counterfactuals": _plot_counterfactuals,
    "traversals": _plot_traversals,
    "reuse": _plot_reuse,
    "tuning": _plot_tuning,
    "curves": _plot_curves,
    "confusions": _plot_confusions,
}


def draw_plot(
    kind: str, target: Target, *, environment: str | None = None, seed: int = 0
) -> Figure:
    """The picture of that name; `seed` is of the examples that are drawn to be shown."""
    return draw_figure(PLOTS[check_choice("plot", kind, PLOTS)](Subject(target, environment, seed)))
