"""What a command was pointed at, a run or a saved balancer, and one picture of it by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
from equipoise.checks import check_choice
from equipoise.data import EnvironmentDataset, check_dataset, get_dataset
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.report import figures
from equipoise.report.paper import draw_figure
from equipoise.report.pictures import Part, is_image
from equipoise.report.run import RunStory, plot_training, tell_run
from equipoise.report.study import (
    Study,
    choose_anchors,
    decode_counterfactuals,
    make_study,
    measure_effects,
    show_anchors,
    traverse_latent,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BALANCER_FILE = "balancer.safetensors"
N_EXAMPLES, N_SAMPLED = 10, 1000


@dataclass(frozen=True)
class Target:
    """What there is to show; `missing` says in words what could not be found.

    Examples, labels and environments are as the balancer knows them; None without data.
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

    Parameters
    ----------
    path : str or Path
    dataset : EnvironmentDataset, optional
        The data; a run knows its own by name or path, a balancer needs them to show examples.
    data_dir : str or Path, optional
        Where the files of a dataset by name are.
    cache : str or Path, optional
        Where the run's balancer is, by default beside it.
    device : str
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
    settings = description.settings
    if dataset is None:
        try:
            check_dataset(settings.dataset, data_dir=data_dir)
        except ValueError:  # data that were handed over in Python, or that are no longer there
            lacks = (
                f"the data of this run, {settings.dataset!r}, are not at hand, so only "
                "its records are shown: name them with --data"
            )
            return Target(path, None, run=tell_run(path), missing=(lacks,))
        dataset = get_dataset(settings.dataset, data_dir=data_dir, data_seed=settings.data_seed)
    return _open_run(path, description, dataset, None if cache is None else Path(cache), device)


def _open_balancer(file: Path, dataset: EnvironmentDataset | None, device: str) -> Target:
    balancer = CausalBalancer.load(file)
    balancer.device = device
    if balancer.latent_model_ is not None:
        balancer.latent_model_.to(device)
    if dataset is None:
        lacks = "the examples are not at hand, so none are shown: name them with --data"
        return Target(file.parent, balancer, missing=(lacks,))
    names = balancer.names_
    classes = balancer.classes_ if names.labels is None else np.asarray(names.labels)
    fitted = balancer.environments_ if names.environments is None else names.environments
    fitted = np.asarray(fitted)
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
    settings, balancer = description.settings, None
    lacks: tuple[str, ...] = ()
    if needs_balancer(settings, data):
        place = cache or choose_cache(path)
        balancer = find_balancer(settings, data, place, device=device, code=description.code)
        if balancer is None:
            lacks = (
                f"the balancer of this run is not in {place}, so its balance is not shown: say "
                "where it is with --cache",
            )
    story = tell_run(path, data, balancer=balancer, device=device)
    codes = data.train.labels, data.train.environments
    return Target(path, balancer, data.show_balancer(data.train), *codes, story, lacks)


# --- one picture by name -----------------------------------------------------------------------


PLOTS = (
    *("situations", "love", "tables", "overlap", "reuse", "tuning"),  # of the diagnosis
    *("gallery", "counterfactuals", "traversals"),  # of the examples
    *("curves", "confusions"),  # of a run
)


def draw_plot(
    kind: str, target: Target, *, environment: str | None = None, seed: int = 0
) -> Figure:
    """The picture of that name (one of `PLOTS`), for a paper or a slide.

    Parameters
    ----------
    kind : str
    target : Target
        What `open_target` gave.
    environment : str, optional
        One environment, for love, tables and overlap.
    seed : int
        Of the examples that are drawn to be shown.
    """
    check_choice("plot", kind, PLOTS)
    missing = "; ".join(target.missing)
    if kind in ("curves", "confusions"):
        if target.run is None:
            raise ValueError(f"{target.folder} is not a run: there are no records to plot")
        if kind == "curves":
            return draw_figure([plot_training(target.run)])
        if not target.run.confusions:
            raise ValueError(missing or "this run has no weights yet")
        return draw_figure(target.run.confusions)
    if target.balancer is None:
        raise ValueError(missing or "this run has no balancer")
    found = target.balancer.examine(target.examples, target.labels, target.environments)
    study = make_study(target.balancer, found, target.balancer.diagnose(found))
    if environment is not None:
        check_choice("environment", environment, study.environment_names)
    if kind not in ("gallery", "counterfactuals", "traversals"):
        parts = _plot_diagnosis(kind, study.diagnostics, environment)
        if not parts:
            raise ValueError(f"there is nothing to plot: {_WHY_EMPTY[kind]}")
        return draw_figure(parts)
    if study.found.source is None:
        raise ValueError(missing)
    return draw_figure(_plot_examples(kind, study, np.random.default_rng([seed, 0x9107])))


def _plot_diagnosis(
    kind: str, diagnostics: BalanceDiagnostics, environment: str | None
) -> Sequence[Part]:
    place = environment or POOLED
    match kind:
        case "situations":
            panel = figures.plot_situations(diagnostics.situations)
            return [] if panel is None else [panel]
        case "love":
            worst = diagnostics.worst
            return [figures.plot_love(worst[worst["environment"] == place], place=place)]
        case "tables" if len(diagnostics.cross):
            cross = diagnostics.cross
            name = cross["covariate"].iloc[0]
            chosen = (cross["covariate"] == name) & (cross["environment"] == place)
            return figures.plot_cross(cross[chosen], covariate=str(name))
        case "overlap":
            return figures.plot_overlap(
                diagnostics, environment or diagnostics.environment_names[0]
            )
        case "reuse":
            return [figures.plot_reuse(diagnostics.reuse)]
        case "tuning":
            return figures.plot_tuning(diagnostics)
    return []


_WHY_EMPTY = {
    "situations": "price and protection were not measured; give the examples with --data",
    "tables": "no covariate is known",
    "overlap": "no two labels share an environment",
    "tuning": "nothing was balanced, or every match is at the same distance",
}


def _plot_examples(kind: str, study: Study, generator: np.random.Generator) -> Sequence[Part]:
    shown = is_image(study.input_shape)
    if kind != "counterfactuals" and not shown:
        raise ValueError(
            f"{kind} shows pictures, but these examples are rows of a table: plot "
            "counterfactuals, or see the report"
        )
    if kind == "gallery":
        if study.matches is None:
            raise ValueError("this balancer weights examples and matches none: see the report")
        rows = choose_anchors(study.found.labels, study.found.environments, N_EXAMPLES, generator)
        n_labels = len(study.label_names)
        return [figures.plot_gallery(study, show_anchors(study.matches, rows, n_labels=n_labels))]
    if study.model is None:
        raise ValueError(
            f"{kind} needs a model of Z, and this balancer fitted none: fit one with "
            'balance_on="all"'
        )
    if shown and kind == "counterfactuals":
        rows = choose_anchors(study.found.labels, study.found.environments, N_EXAMPLES, generator)
        kept = decode_counterfactuals(study.model, *study.take(rows))
        return [figures.plot_counterfactuals(kept, study.found.labels[rows], study.label_names)]
    rows = study.draw_rows(N_SAMPLED, generator)
    if not shown:
        return figures.plot_effects(measure_effects(study.model, study.take(rows)), study)
    moved = traverse_latent(study.model, study.take(rows))
    return [figures.plot_traversals(moved, study.found.source.fetch(rows[:N_EXAMPLES]))]
