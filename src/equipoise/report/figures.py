"""The pictures of a balance, each defined once: for the page and for papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.balance import POOLED
from equipoise.data import EnvironmentDataset
from equipoise.diagnosis import THRESHOLD, BalanceDiagnostics
from equipoise.latent import LatentCovariateModel
from equipoise.report.paper import draw_figure
from equipoise.report.pictures import (
    Axis,
    Bars,
    Brightness,
    Heat,
    ImageTable,
    Level,
    Line,
    Mark,
    Panel,
    Points,
    Stairs,
    Ways,
    make_axis,
    to_rgb,
    write_number,
    write_share,
)
from equipoise.report.study import (
    Counterfactuals,
    FeatureEffects,
    ShownAnchor,
    Study,
    Traversals,
    decode_counterfactuals,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_ROWS, MOST_PAIRS, MOST_FEATURES, MOST_LABELS = 24, 9, 14, 12
ROOM = 34  # characters that stand side by side below bars on the narrowest screen


# --- two values for each of some rows ----------------------------------------------------------


def plot_pairs(
    rows: Sequence[str],
    before: Sequence[float],
    after: Sequence[float],
    *,
    title: str,
    x_name: str,
    names: tuple[str, str] = ("random batches", "balanced batches"),
    errors: tuple[Sequence[float], Sequence[float]] | None = None,
    threshold: float | None = None,
    high: float | None = None,
    write: Callable[[float], str] = write_number,
) -> Panel:
    """A row for each name: a ring before, a dot after, and the way between them.

    With `errors`, points have error bars and their values beside them, and no way.
    """
    places = [float(i) for i in range(len(rows))]
    edges = [*before, *after, *([] if threshold is None else [2 * threshold / 1.08])]
    if errors is not None:
        pairs = zip((before, after), errors, strict=True)
        edges += [v + e for vs, es in pairs for v, e in zip(vs, es, strict=True)]
    largest = max((edge for edge in edges if math.isfinite(edge)), default=1.0)
    shift = 0.0 if errors is None else 0.2  # so that error bars do not hide each other
    told = [
        f"{row}: {write(a)} {names[0]}, {write(b)} {names[1]}"
        for row, a, b in zip(rows, before, after, strict=True)
    ]
    marks: list[Mark] = [] if errors is not None else [Ways(before, after, places)]
    if threshold is not None:
        marks.append(Level(threshold, upwards=True, name=f"{threshold:g}, small enough"))
    for i, values in enumerate((before, after)):
        y = [place + (2 * i - 1) * shift for place in places]
        error = None if errors is None else errors[i]
        labels = [] if errors is None else [write(value) for value in values]
        style: dict[str, Any] = {"ring": i == 0, "x_error": error, "told": told, "labels": labels}
        marks.append(Points(("before", "after")[i], values, y, names[i], **style))
    return Panel(
        title,
        tuple(marks),
        make_axis([], low=0.0, high=high or 1.08 * largest, write=write, name=x_name),
        Axis(-0.5, len(rows) - 0.5),
        tuple(rows),
        height=26.0 if errors is None else 56.0,
        inches=(6.4, (0.27 if errors is None else 0.55) * len(rows) + 1.2),
    )


def plot_love(table: pd.DataFrame, *, place: str = POOLED) -> Panel:
    """The Love plot of one environment's rows of `diagnostics.worst`.

    Given covariates come first, then known ones, features and z, then what differs most.
    """
    table = table[table["smd_before"].notna() & table["smd_after"].notna()]
    table = table[table["kind"] != "score"]
    first = table["kind"].map({"given": 2, "known": 1, "feature": 1, "z": 1}).fillna(0)
    size = table[["smd_before", "smd_after"]].max(axis=1)
    order = table.assign(_first=first, _given=first == 2, _size=size).sort_values(
        ["_first", "_size"], ascending=False, kind="stable"
    )
    order = order.head(MOST_ROWS).sort_values(["_given", "_size"], ascending=False, kind="stable")
    return plot_pairs(
        [str(name) for name in order["covariate"]],
        order["smd_before"].astype(float).tolist(),
        order["smd_after"].astype(float).tolist(),
        title=f"Love plot, {place}: largest difference between two labels",
        x_name="largest difference between two labels, in standard deviations",
        threshold=THRESHOLD,
    )


def plot_situations(situations: pd.DataFrame) -> Panel:
    """Accuracy of plain and balanced training where the link stays, is even, is reversed."""
    columns = ("plain", "balanced", "plain_error", "balanced_error")
    plain, balanced, plain_error, balanced_error = (
        situations[name].astype(float).tolist() for name in columns
    )
    return plot_pairs(
        [str(name) for name in situations.index],
        plain,
        balanced,
        title="Accuracy in three situations, plain and balanced training",
        x_name="accuracy in percent, ± standard error",
        names=("plain training", "balanced training"),
        errors=(plain_error, balanced_error),
        high=100.0,
        write=lambda value: f"{value:.0f}" if math.isfinite(value) else "–",
    )


def plot_methods(methods: pd.DataFrame) -> list[Panel]:
    """Worst difference before and after, and the share of examples that is left, by method."""
    names = [str(name) for name in methods["method"]]
    balance = plot_pairs(
        names,
        methods["worst_smd_before"].astype(float).tolist(),
        methods["worst_smd_after"].astype(float).tolist(),
        title="Worst difference between two labels, by method",
        x_name="standard deviations",
        names=("before", "after"),
        threshold=THRESHOLD,
    )
    shares = methods["effective_share"].astype(float).tolist()
    places = [float(i) for i in range(len(names))]
    pairs = zip(names, shares, strict=True)
    told = [f"{name}: {write_share(share)} of the examples" for name, share in pairs]
    size = Panel(
        "Effective sample size, by method",
        (Points("after", shares, places, "effective sample size", told=told),),
        make_axis([], low=0.0, high=1.0, write=write_share, name="share of the examples"),
        Axis(-0.5, len(names) - 0.5),
        tuple(names),
        height=26.0,
        inches=(6.4, 0.27 * len(names) + 1.2),
    )
    return [balance, size]


# --- scores, reuse, settings -------------------------------------------------------------------


def plot_overlap(diagnostics: BalanceDiagnostics, environment: str) -> list[Panel]:
    """The pairs of labels whose scores overlapped least: one label above the line, one below.

    Heights are square roots of shares, so that what is spread thin can be seen beside a peak.
    """
    table = diagnostics.overlap[diagnostics.overlap["environment"] == environment]
    table = table.sort_values("overlap_before", kind="stable").head(MOST_PAIRS)
    histograms = diagnostics.histograms[diagnostics.histograms["environment"] == environment]
    by_pair = dict(iter(histograms.groupby(["first", "second"], observed=True)))
    pairs = zip(table["first"], table["second"], strict=True)
    return [plot_pair(*pair, by_pair[pair]) for pair in pairs if pair in by_pair]


def plot_pair(first: str, second: str, part: pd.DataFrame) -> Panel:
    """Histograms of two labels over the score of the first against the second."""
    columns = ("first_after", "second_after", "first_before", "second_before")
    highest = float(part[list(columns)].max(axis=None)) or 1.0
    edges = np.linspace(0.0, 1.0, len(part) + 1).tolist()
    marks: list[Mark] = []
    for column, side in zip(columns, (1, -1, 1, -1), strict=True):
        heights = side * np.sqrt(part[column].to_numpy(dtype=np.float64) / highest)
        after = column.endswith("after")
        name = "" if side < 0 else "balanced batches" if after else "random batches"
        kind = "after" if after else "before"
        marks.append(Stairs(kind, edges, heights.tolist(), name, fill=after))
    ticks = ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    return Panel(
        f"Scores of {first} (above) and {second} (below), before and after",
        (*marks, Level(0.0, kind="faint", dashed=False)),
        Axis(0.0, 1.0, ticks),
        Axis(-1.0, 1.0),
        caption=f"above {first}, below {second}",
        height=158.0,
        inches=(2.6, 1.9),
    )


def plot_reuse(reuse: pd.DataFrame) -> Panel:
    """How many examples appear how often, as a share of all."""
    names = [f"{a:g}–{b:g}" for a, b in zip(reuse["at_least"], reuse["below"], strict=True)]
    counts = [float(count) for count in reuse["examples"]]
    total = sum(counts) or 1.0
    shares = [count / total for count in counts]
    told = [
        f"{name}: {write_number(count)} ({write_share(share)})"
        for name, count, share in zip(names, counts, shares, strict=True)
    ]
    # Where names would run into each other, only every second or third is written.
    step = max(1, math.ceil(len(names) * (max(map(len, names), default=0) + 1) / ROOM))
    ticks = tuple((float(i), name) for i, name in enumerate(names) if i % step == 0)
    return Panel(
        "How many examples appear how often, when each is an anchor once",
        (Bars("after", [float(i) for i in range(len(names))], shares, told=told),),
        Axis(-0.5, len(names) - 0.5, ticks, "expected appearances"),
        make_axis([], low=0.0, high=max([*shares, 1e-9]), write=write_share, name="of examples"),
        height=220.0,
        inches=(5.2, 2.8),
    )


def plot_tuning(diagnostics: BalanceDiagnostics) -> list[Panel]:
    """Balance against the number of matches and against the caliper, where it can be compared."""
    settings = (
        ("matches of an anchor, a", "n_matches", diagnostics.by_n_matches, write_number),
        ("matches kept by the caliper", "matched", diagnostics.by_caliper, write_share),
    )
    measures = (
        ("worst difference", "before", "worst_smd"),
        ("mean difference", "after", "mean_smd"),
        ("effective share", "third", "effective_size"),
    )
    panels = []
    for name, column, table, write in settings:
        if len(table) < 2:
            continue
        x = table[column].astype(float).tolist()
        curves = [(n, kind, table[y].astype(float).tolist()) for n, kind, y in measures]
        values = [y for _, _, ys in curves for y in ys if math.isfinite(y)] + [THRESHOLD]
        panels.append(
            Panel(
                f"Balance against the {name}",
                (*plot_curves(x, curves, write_x=write), Level(THRESHOLD)),
                make_axis(x, name=name, write=write, at_values=True),
                make_axis(values, low=min(0.0, *values), high=1.06 * max(values), name="SD"),
                inches=(4.2, 3.0),
            )
        )
    return panels


def plot_curves(
    x: Sequence[float],
    curves: Sequence[tuple[str, str, Sequence[float]]],
    *,
    write_x: Callable[[float], str] = write_number,
    write_y: Callable[[float], str] = write_number,
) -> list[Mark]:
    """A line with its points for each (name, kind, values)."""
    marks: list[Mark] = []
    for name, kind, y in curves:
        told = [f"{name}: {write_y(b)} at {write_x(a)}" for a, b in zip(x, y, strict=True)]
        marks += [Line(kind, x, y, name), Points(kind, x, y, size=2.6, told=told)]
    return marks


# --- tables and images -------------------------------------------------------------------------


def plot_cross(table: pd.DataFrame, *, covariate: str = "", n_labels: int = 20) -> list[Heat]:
    """Label × covariate in one environment: shares of each label, before and after."""
    labels, values = (list(dict.fromkeys(table[name])) for name in ("label", "value"))
    full = max(float(table[["before", "after"]].max(axis=None)), 0.2)
    heats = []
    for when, title in (("before", "random batches"), ("after", "balanced batches")):
        shares = table.pivot(index="label", columns="value", values=when)
        shares = shares.reindex(index=labels, columns=values)
        heats.append(
            Heat(
                title,
                shares.to_numpy(dtype=np.float64, na_value=0.0)[:n_labels],
                tuple(str(label) for label in labels[:n_labels]),
                tuple(str(value) for value in values),
                kind=when,
                full=full,
                x_name=covariate,
            )
        )
    return heats


def draw_tables(
    before: NDArray,
    after: NDArray,
    *,
    label_names: Sequence[str],
    covariate_name: str,
    value_names: Sequence[str] | None = None,
) -> Figure:
    """Counts of label × covariate as shares of each label: random and balanced batches."""
    values = value_names or [str(i) for i in range(before.shape[1])]
    heats = []
    for kind, title, table in (
        ("before", "random batches", before),
        ("after", "balanced batches", after),
    ):
        total = table.sum(axis=1, keepdims=True)
        shares = np.asarray(table / np.where(total > 0, total, 1), dtype=np.float64)
        heat = Heat(title, shares, tuple(label_names), tuple(values), kind)
        heats.append(replace(heat, x_name=covariate_name, y_name="label"))
    return draw_figure(heats)


def draw_batches(
    dataset: EnvironmentDataset, random_batch: Ints, balanced_batch: Ints, *, n_columns: int = 10
) -> Figure:
    """A random and a balanced batch side by side, a row for each label (the paper's Figure 3)."""
    tables = []
    for title, batch in (("a random batch", random_batch), ("a balanced batch", balanced_batch)):
        shown = np.ones((dataset.n_labels, n_columns, *dataset.input_shape[1:], 3))
        for label in range(dataset.n_labels):
            members = batch[dataset.labels[batch] == label][:n_columns]
            if len(members):
                shown[label, : len(members)] = to_rgb(dataset.fetch(members))
        images = shown.reshape(-1, *shown.shape[2:])
        columns = ("",) * n_columns
        tables.append(ImageTable(title, images, tuple(dataset.label_names), columns))
    return draw_figure(tables)


def draw_counterfactuals(
    model: LatentCovariateModel,
    dataset: EnvironmentDataset,
    examples: Ints,
    labels: Ints,
    environments: Ints,
) -> Figure:
    """Examples as they are, and decoded with z kept and y changed (the paper's Figure 5).

    What stays the same along a row is what z carries. `labels` and `environments` are the
    model's codes of the examples.
    """
    found = decode_counterfactuals(model, dataset, examples, labels, environments)
    return draw_figure([plot_counterfactuals(found, labels, dataset.label_names, n_labels=None)])


def plot_counterfactuals(
    found: Counterfactuals,
    labels: Ints,
    label_names: Sequence[str],
    *,
    n_labels: int | None = MOST_LABELS,
) -> ImageTable:
    """A row for each example: itself, then decoded under every label with its z kept."""
    decoded = found.decoded[:, :n_labels]
    both = torch.cat([found.originals[:, None], decoded], dim=1).flatten(0, 1)
    names = tuple(f"y={name}" for name in label_names)
    return ImageTable(
        "z kept, y changed",
        to_rgb(both, Brightness.of(found.originals)),
        tuple(names[label] for label in labels.tolist()),
        ("x", *names[:n_labels]),
        own=tuple(int(label) + 1 for label in labels.tolist()),
    )


def plot_traversals(found: Traversals, originals: torch.Tensor) -> ImageTable:
    """One z moved at a time; `originals` say what is black and what is white."""
    offsets = ("0" if abs(o) < 0.05 else f"{o:+.1f}".replace("-", "−") for o in found.offsets)
    images = to_rgb(found.decoded.flatten(0, 1), Brightness.of(originals))
    rows = tuple(f"z{i + 1}" for i in found.dimensions)
    return ImageTable("one z moved at a time", images, rows, tuple(offsets))


def plot_effects(effects: FeatureEffects, study: Study) -> list[Heat]:
    """What label and z do to the features of a table that they move most."""
    strength = np.abs(effects.by_label).max(axis=1) + np.abs(effects.by_z).max(axis=1)
    shown = np.sort(np.argsort(-strength, kind="stable")[:MOST_FEATURES])
    names = tuple(study.feature_names[i] for i in shown)
    z = tuple(f"z{i + 1}" for i in range(effects.by_z.shape[1]))
    by_label = effects.by_label[shown][:, :MOST_LABELS]
    tables = (
        ("z kept, y changed", by_label, study.label_names[:MOST_LABELS]),
        ("y kept, one z from −1 to +1 standard deviation", effects.by_z[shown], z),
    )
    return [Heat(t, cells, names, c, full=2.0, write=_write_effect) for t, cells, c in tables]


def plot_gallery(study: Study, anchors: Sequence[ShownAnchor]) -> ImageTable:
    """A row for each anchor: itself, then its nearest match of each label; blank for none."""
    labels = study.label_names[:MOST_LABELS]
    shown = np.full((len(anchors), len(labels) + 1), -1)
    for i, anchor in enumerate(anchors):
        shown[i, 0] = anchor.example
        for match in reversed(anchor.matches):  # nearest last, so that it stays
            if match.label < len(labels):
                shown[i, match.label + 1] = match.example
    rows = shown.ravel()
    x = study.examples.fetch(np.where(rows < 0, 0, rows))
    images = to_rgb(x, Brightness.of(x))
    images[rows < 0] = 1.0
    own = tuple(f"y={study.label_names[study.labels[anchor.example]]}" for anchor in anchors)
    columns = ("anchor", *(f"y={name}" for name in labels))
    return ImageTable("anchors and their nearest matches", images, own, columns)


def _write_effect(value: float) -> str:
    return write_number(round(value, 2)) if abs(value) >= 0.005 else "0"
