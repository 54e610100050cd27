"""A run as a report tells it: records, choices, confusion matrices, the command to repeat it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.algorithms import Featurizer
from equipoise.balancer import CausalBalancer
from equipoise.benchmark import SELECTIONS, Record, RunData, RunSettings, TrainedRun, load_run
from equipoise.benchmark.run import OWN_FEATURIZER
from equipoise.benchmark.run_directory import RunDescription, RunDirectory
from equipoise.report.repeat_command import write_command

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Confusion:
    """Shares of predicted labels (columns) among the examples of each label (rows)."""

    title: str
    shares: Floats  # [m, m]; a row without examples is not a number
    accuracy: float
    n_examples: int


@dataclass(frozen=True)
class RunStory:
    """What a run did; `confusions` are those of the checkpoint that `selection` chose."""

    name: str
    description: RunDescription
    records: tuple[Record, ...]
    selected: dict[str, Record]
    selection: str | None
    confusions: tuple[Confusion, ...]
    command: str

    @property
    def settings(self) -> RunSettings:
        """What defines the run."""
        return self.description.settings

    @property
    def finished(self) -> bool:
        """Whether the last step has been reached."""
        return bool(self.records) and self.records[-1].step == self.settings.steps


def tell_run(
    path: str | Path,
    data: RunData | None = None,
    *,
    balancer: CausalBalancer | None = None,
    featurizer: Featurizer | None = None,
    device: str = "cpu",
) -> RunStory:
    """Read a run's directory; with its data at hand, also predict them for the confusions.

    `balancer` weighs the held-out examples as balanced validation does.
    """
    directory = RunDirectory(path)
    description = directory.describe()
    records = tuple(directory.load_records())
    if not records:
        raise ValueError(
            f"{path} has no records yet: let the run reach its first checkpoint, "
            f"step {description.settings.checkpoint_every}"
        )
    names = directory.kept_selections()
    own = description.settings.featurizer == OWN_FEATURIZER
    selection: str | None = None
    confusions: tuple[Confusion, ...] = ()
    if data is not None and names and not (own and featurizer is None):
        trained = load_run(path, device=device, featurizer=featurizer)
        selection = trained.selection
        confusions = tuple(_confuse(trained, data, balancer))
    return RunStory(
        Path(path).resolve().name,
        description,
        records,
        {name: SELECTIONS[name]().select(records) for name in names},
        selection,
        confusions,
        write_command(description.settings, description.input_shape, str(path)),
    )


def _confuse(
    trained: TrainedRun, data: RunData, balancer: CausalBalancer | None
) -> list[Confusion]:
    """Held out of the training environments, the same under balanced weights, out of domain."""
    n_labels = len(trained.label_names)
    parts = [data.held_out_parts[e] for e in data.training_environments]
    # An environment at a time: some algorithms look at the batch that they predict.
    rows = np.concatenate(parts)
    found = np.concatenate([trained.predict(data.dataset.subset(part)) for part in parts])
    labels = data.dataset.labels[rows]
    shown = [_count("held out, training environments", labels, found, None, n_labels)]
    if balancer is not None:
        weights = _weigh(data, balancer, rows)
        shown.append(_count("the same, balanced weights", labels, found, weights, n_labels))
    if data.test_environment is not None:
        rows = data.train_parts[data.test_environment]
        found = trained.predict(data.dataset.subset(rows))
        title = f"out of domain, {data.dataset.environment_names[data.test_environment]}"
        shown.append(_count(title, data.dataset.labels[rows], found, None, n_labels))
    return shown


def _weigh(data: RunData, balancer: CausalBalancer, rows: Ints) -> Floats:
    """Balanced weights; an example of a label that the balancer never saw weighs nothing."""
    weights = np.zeros(len(rows))
    known = np.flatnonzero(np.isin(data.dataset.labels[rows], balancer.classes_))
    weights[known] = balancer.balanced_weights(data.dataset.subset(rows[known]))
    return weights


def _count(
    title: str, labels: Ints, found: Ints, weights: Floats | None, n_labels: int
) -> Confusion:
    weights = np.ones(len(labels)) if weights is None else weights
    table = np.bincount(labels * n_labels + found, weights, minlength=n_labels**2)
    table = table.reshape(n_labels, n_labels)
    total = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, total, out=np.full_like(table, np.nan), where=total > 0)
    accuracy = float(np.trace(table) / max(table.sum(), 1e-300))
    return Confusion(title, shares, accuracy, len(labels))
