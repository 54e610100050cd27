"""What a command was pointed at: a run, or a saved balancer, with the data it can find."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.balancer import CausalBalancer
from equipoise.benchmark.balancer_cache import choose_cache, find_balancer
from equipoise.benchmark.fingerprint import fingerprint_data
from equipoise.benchmark.preparation import needs_balancer
from equipoise.benchmark.run_data import split_for_run
from equipoise.benchmark.run_directory import RunDescription, RunDirectory
from equipoise.data import EnvironmentDataset, check_dataset, get_dataset
from equipoise.report.run_story import RunStory, tell_run

BALANCER_FILE = "balancer.safetensors"


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
    if fingerprint_data(dataset) != description.data:
        raise ValueError(
            f"these are not the data that {path} was trained on: their examples differ. Name "
            "those with --data"
        )
    data = split_for_run(description.settings, dataset)
    balancer, lacks = None, []
    if needs_balancer(description.settings, data):
        place = choose_cache(path) if cache is None else cache
        balancer = find_balancer(description.settings, data, place, device=device)
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
