"""A run as a report tells it: records, choices, confusions, and the command to repeat it."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.balancer import CausalBalancer
from equipoise.benchmark import (
    OWN_FEATURIZER,
    PREFERRED,
    RECIPES,
    SELECTIONS,
    Record,
    RunData,
    RunDescription,
    RunDirectory,
    RunSettings,
    TrainedRun,
    load_run,
    make_settings,
)
from equipoise.report import html
from equipoise.report.figures import plot_curves
from equipoise.report.pictures import Heat, Mark, Panel, Points, make_axis, write_share
from equipoise.report.study import Floats, Ints
from equipoise.report.svg import render_heat, render_panel

MOST_LABELS = 20
_OPTIONS = ("dataset", "algorithm", "sampling", "test_environment", "seed", "data_seed")
_APART = (*_OPTIONS, "featurizer", "hyperparameters", "balancer")

# Name on the page, colour, and what it shows of a record.
CURVES: tuple[tuple[str, str, Callable[[Record], float | None]], ...] = (
    ("train-domain validation", "before", lambda record: record.validation_accuracy),
    ("balanced validation", "after", lambda record: record.balanced_validation_accuracy),
    ("out of domain", "third", lambda record: record.ood_accuracy),
)
SELECTION_KINDS = {"train-domain": "before", "balanced": "after"}


@dataclass(frozen=True)
class RunStory:
    """What a run did; `confusions` are those of the checkpoint that `selection` chose."""

    description: RunDescription
    records: tuple[Record, ...]
    selected: dict[str, Record]
    selection: str | None
    confusions: tuple[Heat, ...]
    command: str

    @property
    def settings(self) -> RunSettings:
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
    device: str = "cpu",
) -> RunStory:
    """Read a run's directory; with its data, also predict them for the confusions."""
    directory = RunDirectory(path)
    description, records = directory.describe(), tuple(directory.load_records())
    settings = description.settings
    if not records:
        raise ValueError(
            f"{path} has no records yet: let the run reach its first checkpoint, "
            f"step {settings.checkpoint_every}"
        )
    names = directory.kept_selections()
    selection: str | None = None
    confusions: tuple[Heat, ...] = ()
    if data is not None and names and settings.featurizer != OWN_FEATURIZER:
        trained = load_run(path, device=device)
        selection = trained.selection
        confusions = tuple(_confuse(trained, data, balancer))
    return RunStory(
        description,
        records,
        {name: SELECTIONS[name]().select(records) for name in names},
        selection,
        confusions,
        write_command(settings, description.input_shape, str(path)),
    )


def _confuse(trained: TrainedRun, data: RunData, balancer: CausalBalancer | None) -> Iterator[Heat]:
    """Held out of the training environments, the same under balanced weights, out of domain."""
    dataset, names = data.dataset, trained.label_names
    parts = [data.held_out_parts[e] for e in data.training_environments]
    # An environment at a time: some algorithms look at the batch that they predict.
    rows = np.concatenate(parts)
    found = np.concatenate([trained.predict(dataset.subset(part)) for part in parts])
    labels = dataset.labels[rows]
    yield _count("held out, training environments", labels, found, np.ones(len(rows)), names)
    if balancer is not None:
        # An example of a label that the balancer never saw weighs nothing.
        weights, known = np.zeros(len(rows)), np.flatnonzero(np.isin(labels, balancer.classes_))
        shown = data.show_balancer(dataset.subset(rows[known]))
        weights[known] = balancer.balanced_weights(shown)
        yield _count("the same, balanced weights", labels, found, weights, names)
    if data.test_environment is not None:
        rows = data.train_parts[data.test_environment]
        found = trained.predict(dataset.subset(rows))
        title = f"out of domain, {dataset.environment_names[data.test_environment]}"
        yield _count(title, dataset.labels[rows], found, np.ones(len(rows)), names)


def _count(title: str, labels: Ints, found: Ints, weights: Floats, names: Sequence[str]) -> Heat:
    """Shares of predicted labels (columns) among the examples of each label (rows)."""
    n_labels, shown = len(names), names[:MOST_LABELS]
    table = np.bincount(labels * n_labels + found, weights, minlength=n_labels**2)
    table = table.reshape(n_labels, n_labels)
    total = table.sum(axis=1, keepdims=True)
    shares = np.divide(table, total, out=np.full_like(table, np.nan), where=total > 0)
    title += f": {write_share(float(np.trace(table) / max(table.sum(), 1e-300)), 1)} right"
    cells = shares[:MOST_LABELS, :MOST_LABELS]
    return Heat(title, cells, shown, shown, mark_diagonal=True, y_name="label")


# --- the command that trains it again ---------------------------------------------------------


def write_command(settings: RunSettings, input_shape: Sequence[int], output: str) -> str:
    """`equipoise train …` that gives these very settings, by the recipe that is nearest.

    >>> settings = make_settings("quick", dataset="ColoredMNIST", algorithm="ERM", seed=3,
    ...                          test_environment="0.9", steps=200)
    >>> print(write_command(settings, (2, 28, 28), "runs/x"))
    equipoise train --dataset ColoredMNIST --algorithm ERM --sampling balanced \
--test-environment 0.9 --seed 3 --data-seed 0 --quick --set steps=200 --output runs/x
    """
    candidates = [_write_by(profile, settings, input_shape) for profile in RECIPES]
    words = min((found for found in candidates if found is not None), key=len)
    return shlex.join(["equipoise", "train", *words, "--output", output])


def _write_by(profile: str, settings: RunSettings, input_shape: Sequence[int]) -> list[str] | None:
    """The options over this recipe; None where it says something that the settings do not."""
    wanted = settings.to_json()
    given = {name: wanted[name] for name in _OPTIONS}
    plain, recipe = (
        make_settings(profile, input_shape=input_shape, **given, **steps).to_json()
        for steps in ({}, {"steps": settings.steps})
    )
    if recipe["hyperparameters"].keys() - wanted["hyperparameters"].keys():
        return None
    words = []
    for name, value in given.items():
        words += [f"--{name.replace('_', '-')}", "none" if value is None else str(value)]
    words += ["--quick"] if profile == "quick" else []
    if wanted["featurizer"] != recipe["featurizer"]:
        words += ["--featurizer", wanted["featurizer"]]
    changed = {
        name: value
        for name, value in wanted.items()
        if name not in _APART and value != (plain if name == "steps" else recipe)[name]
    }
    own = wanted["hyperparameters"].items()
    changed |= {n: value for n, value in own if recipe["hyperparameters"].get(n) != value}
    changed |= {f"balancer.{name}": value for name, value in wanted["balancer"].items()}
    for name, value in changed.items():
        words += ["--set", f"{name}={_write_value(value)}"]
    return words


def _write_value(value: Any) -> str:
    """As `--set` reads it: JSON, and a text bare unless it would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except json.JSONDecodeError:
        return value
    return json.dumps(value)


# --- on the page -------------------------------------------------------------------------------


def draw_outcome(story: RunStory) -> html.Html:
    """The run in a sentence, and the accuracies of the checkpoint that a user would take."""
    rule, record = "the last so far", story.records[-1]
    for name in (*PREFERRED, *story.selected):  # by balanced validation where it was kept
        if name in story.selected:
            rule, record = f"chosen by {name} validation", story.selected[name]
            break
    facts = []
    for name, kind, read in CURVES:
        value = read(record)
        if value is not None:
            classes = {"before": "from", "after": "to"}.get(kind)
            facts.append((name, html.element("span", write_share(value, 1), class_=classes), ""))
    settings = story.settings
    where = "" if settings.test_environment is None else f", tested on {settings.test_environment}"
    sentence = (
        f"{settings.algorithm} with {settings.sampling} batches{where}: step {record.step:,} "
        f"of {settings.steps:,}, {rule}."
    )
    headline = html.element("p", sentence, class_="headline")
    style = {"class_": "card verdict level-run", "id": "outcome"}
    return html.element("section", headline, html.show_facts(facts), **style)


def plot_training(story: RunStory) -> Panel:
    """Accuracies over training; rings mark what each selection rule chose."""
    steps = [float(record.step) for record in story.records]
    curves, values = [], []
    for name, kind, read in CURVES:
        found = [read(record) for record in story.records]
        if any(value is not None for value in found):
            curves.append((name, kind, [math.nan if v is None else v for v in found]))
            values += [value for value in found if value is not None]
    marks: list[Mark] = plot_curves(
        steps, curves, write_x=lambda x: f"{x:,.0f}", write_y=write_share
    )
    for name, record in story.selected.items():
        ood, kind = record.ood_accuracy, SELECTION_KINDS.get(name, "faint")
        height = record.validation_accuracy if ood is None else ood
        told = [f"chosen by {name}: step {record.step}"]
        marks.append(Points(kind, [record.step], [height], ring=True, size=7.0, told=told))
    low = max(0.0, math.floor(10 * min(values) - 0.3) / 10)
    return Panel(
        "Accuracy over training",
        marks,
        make_axis(steps, name="step", write=lambda x: f"{x:,.0f}", at_values=True),
        make_axis([], low=low, high=1.0, write=write_share, name="accuracy"),
        height=280.0,
    )


def make_curves(story: RunStory) -> html.Section:
    """Accuracies over training, and what each selection rule chose."""
    lead = (
        "Train-domain validation takes held-out examples as they are; balanced validation weights "
        "them as balanced batches would. Rings mark the checkpoint that each rule chose, at its "
        "accuracy out of domain."
    )
    if not story.finished:
        lead += f" It has come to step {story.records[-1].step:,} of {story.settings.steps:,}."
    rows = []
    for name, record in story.selected.items():
        accuracies = [read(record) for _, _, read in CURVES]
        cells = ["–" if value is None else write_share(value, 1) for value in accuracies]
        rows.append([html.element("b", name), f"{record.step:,}", *cells])
    chosen = html.list_numbers(["selection", "step", *(name for name, _, _ in CURVES)], rows)
    parts = [html.frame_figure(render_panel(plot_training(story)))]
    parts += [html.frame_figure(chosen, title="Chosen checkpoints")] if rows else []
    return html.Section("curves", "Accuracy over training", lead, html.join(parts))


def make_confusions(story: RunStory) -> html.Section | None:
    """Which labels are taken for which, by part of the data."""
    if not story.confusions:
        return None
    lead = (
        "Of the examples of each label, the share in percent that is taken for each. The model "
        f"is that of step {story.selected[story.selection or ''].step:,}, chosen by "
        f"{story.selection} validation."
    )
    if len(story.description.label_names) > MOST_LABELS:
        lead += f" The first {MOST_LABELS} labels are shown."
    panels = [html.frame_figure(render_heat(heat)) for heat in story.confusions]
    return html.Section(
        "confusions", "Errors", lead, html.element("div", html.join(panels), class_="columns")
    )
