"""The pictures of a balance, each defined once: for the page and for papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.balance import POOLED
from equipoise.data import EnvironmentDataset
from equipoise.diagnosis import THRESHOLD, BalanceDiagnostics
from equipoise.latent import LatentCovariateModel
from equipoise.report import pictures as pic
from equipoise.report.paper import draw_figure
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
    write: Callable[[float], str] = pic.write_number,
) -> pic.Panel:
    """A ring before and a dot after for each row, with the way between them or with error bars."""
    edges = [*before, *after, *([] if threshold is None else [2 * threshold / 1.08])]
    for values, spread in zip((before, after), errors or (), strict=False):
        edges += [value + error for value, error in zip(values, spread, strict=True)]
    largest = max((edge for edge in edges if math.isfinite(edge)), default=1.0)
    told = [
        f"{row}: {write(a)} {names[0]}, {write(b)} {names[1]}"
        for row, a, b in zip(rows, before, after, strict=True)
    ]
    marks: list[pic.Mark] = [] if errors else [pic.Ways(before, after, range(len(rows)))]
    if threshold is not None:
        marks.append(pic.Level(threshold, upwards=True, name=f"{threshold:g}, small enough"))
    for i, (kind, values) in enumerate((("before", before), ("after", after))):
        style: dict[str, Any] = {"ring": i == 0, "told": told}
        shift = 0.0
        if errors:  # so that error bars do not hide each other
            shift = 0.2 * (2 * i - 1)
            style |= {"x_error": errors[i], "labels": [write(value) for value in values]}
        marks.append(
            pic.Points(kind, values, [j + shift for j in range(len(rows))], names[i], **style)
        )
    x = pic.make_axis([], low=0.0, high=high or 1.08 * largest, write=write, name=x_name)
    sizes = {"height": 56.0, "inch": 0.55} if errors else {}
    return _stack_rows(title, rows, marks, x, **sizes)


def _stack_rows(
    title: str,
    rows: Sequence[str],
    marks: Sequence[pic.Mark],
    x: pic.Axis,
    *,
    height: float = 26.0,
    inch: float = 0.27,
) -> pic.Panel:
    inches = 6.4, inch * len(rows) + 1.2
    y = pic.Axis(-0.5, len(rows) - 0.5)
    return pic.Panel(title, marks, x, y, tuple(rows), height=height, inches=inches)


def plot_love(table: pd.DataFrame, *, place: str = POOLED) -> pic.Panel:
    """The Love plot of one environment's rows of `diagnostics.worst`.

    Given covariates come first, then known ones, features and z, then what differs most.
    """
    table = table[table["smd_before"].notna() & table["smd_after"].notna()]
    table = table[table["kind"] != "score"]
    first = table["kind"].map({"given": 2, "known": 1, "feature": 1, "z": 1}).fillna(0)
    size = table[["smd_before", "smd_after"]].max(axis=1)
    order = table.assign(_first=first, _given=first == 2, _size=size)
    downwards: dict[str, Any] = {"ascending": False, "kind": "stable"}
    order = order.sort_values(["_first", "_size"], **downwards).head(MOST_ROWS)
    order = order.sort_values(["_given", "_size"], **downwards)
    return plot_pairs(
        order["covariate"].astype(str).tolist(),
        *_read(order, "smd_before", "smd_after"),
        title=f"Love plot, {place}: largest difference between two labels",
        x_name="largest difference between two labels, in standard deviations",
        threshold=THRESHOLD,
    )


def plot_situations(situations: pd.DataFrame | None) -> pic.Panel | None:
    """Accuracy of plain and balanced training where the link stays, is even, is reversed."""
    if situations is None or situations[["plain", "balanced"]].isna().all(axis=None):
        return None
    plain, balanced, *errors = _read(
        situations, "plain", "balanced", "plain_error", "balanced_error"
    )
    return plot_pairs(
        [str(name) for name in situations.index],
        plain,
        balanced,
        title="Accuracy in three situations, plain and balanced training",
        x_name="accuracy in percent, ± standard error",
        names=("plain training", "balanced training"),
        errors=(errors[0], errors[1]),
        high=100.0,
        write=lambda value: f"{value:.0f}" if math.isfinite(value) else "–",
    )


def plot_methods(methods: pd.DataFrame) -> list[pic.Panel]:
    """Worst difference before and after, and the share of examples that is left, by method."""
    names = [str(name) for name in methods["method"]]
    before, after, shares = _read(methods, "worst_smd_before", "worst_smd_after", "effective_share")
    balance = plot_pairs(
        names,
        before,
        after,
        title="Worst difference between two labels, by method",
        x_name="standard deviations",
        names=("before", "after"),
        threshold=THRESHOLD,
    )
    pairs = zip(names, shares, strict=True)
    told = [f"{name}: {pic.write_share(share)} of the examples" for name, share in pairs]
    size = pic.Points("after", shares, range(len(names)), "effective sample size", told=told)
    x = pic.make_axis([], low=0.0, high=1.0, write=pic.write_share, name="share of the examples")
    return [balance, _stack_rows("Effective sample size, by method", names, [size], x)]


def _read(table: pd.DataFrame, *names: str) -> list[list[float]]:
    return [table[name].astype(float).tolist() for name in names]


# --- scores, reuse, settings -------------------------------------------------------------------


def plot_overlap(diagnostics: BalanceDiagnostics, environment: str) -> list[pic.Panel]:
    """The pairs of labels whose scores overlapped least: one label above the line, one below.

    Heights are square roots of shares, so that what is spread thin can be seen beside a peak.
    """
    table = diagnostics.overlap[diagnostics.overlap["environment"] == environment]
    table = table.sort_values("overlap_before", kind="stable").head(MOST_PAIRS)
    histograms = diagnostics.histograms[diagnostics.histograms["environment"] == environment]
    by_pair = dict(iter(histograms.groupby(["first", "second"], observed=True)))
    pairs = zip(table["first"], table["second"], strict=True)
    return [plot_pair(*pair, by_pair[pair]) for pair in pairs if pair in by_pair]


def plot_pair(first: str, second: str, part: pd.DataFrame) -> pic.Panel:
    """Histograms of two labels over the score of the first against the second."""
    columns = ("first_after", "second_after", "first_before", "second_before")
    highest = float(part[list(columns)].max(axis=None)) or 1.0
    edges = np.linspace(0.0, 1.0, len(part) + 1).tolist()
    marks: list[pic.Mark] = []
    for column, side in zip(columns, (1, -1, 1, -1), strict=True):
        heights = side * np.sqrt(part[column].to_numpy(dtype=np.float64) / highest)
        after = column.endswith("after")
        name = "" if side < 0 else "balanced batches" if after else "random batches"
        kind = "after" if after else "before"
        marks.append(pic.Stairs(kind, edges, heights.tolist(), name, fill=after))
    ticks = ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    return pic.Panel(
        f"Scores of {first} (above) and {second} (below), before and after",
        (*marks, pic.Level(0.0, kind="faint", dashed=False)),
        pic.Axis(0.0, 1.0, ticks),
        pic.Axis(-1.0, 1.0),
        caption=f"above {first}, below {second}",
        height=158.0,
        inches=(2.6, 1.9),
    )


def plot_reuse(reuse: pd.DataFrame) -> pic.Panel:
    """How many examples appear how often, as a share of all."""
    names = [f"{a:g}–{b:g}" for a, b in zip(reuse["at_least"], reuse["below"], strict=True)]
    (counts,) = _read(reuse, "examples")
    shares = [count / (sum(counts) or 1.0) for count in counts]
    told = [
        f"{name}: {pic.write_number(count)} ({pic.write_share(share)})"
        for name, count, share in zip(names, counts, shares, strict=True)
    ]
    # Where names would run into each other, only every second or third is written.
    step = max(1, math.ceil(len(names) * (max(map(len, names), default=0) + 1) / ROOM))
    ticks = tuple((float(i), name) for i, name in enumerate(names) if i % step == 0)
    return pic.Panel(
        "How many examples appear how often, when each is an anchor once",
        [pic.Bars("after", range(len(names)), shares, told=told)],
        pic.Axis(-0.5, len(names) - 0.5, ticks, "expected appearances"),
        pic.make_axis(
            [], low=0.0, high=max([*shares, 1e-9]), write=pic.write_share, name="of examples"
        ),
        height=220.0,
        inches=(5.2, 2.8),
    )


def plot_tuning(diagnostics: BalanceDiagnostics) -> list[pic.Panel]:
    """Balance against the number of matches and against the caliper, where it can be compared."""
    panels = []
    for name, column, table, write in (
        ("matches of an anchor, a", "n_matches", diagnostics.by_n_matches, pic.write_number),
        ("matches kept by the caliper", "matched", diagnostics.by_caliper, pic.write_share),
    ):
        if len(table) < 2:
            continue
        x, worst, mean, share = _read(table, column, "worst_smd", "mean_smd", "effective_size")
        curves = [
            ("worst difference", "before", worst),
            ("mean difference", "after", mean),
            ("effective share", "third", share),
        ]
        values = [y for y in (*worst, *mean, *share) if math.isfinite(y)] + [THRESHOLD]
        panels.append(
            pic.Panel(
                f"Balance against the {name}",
                [*plot_curves(x, curves, write_x=write), pic.Level(THRESHOLD)],
                pic.make_axis(x, name=name, write=write, at_values=True),
                pic.make_axis(values, low=min(0.0, *values), high=1.06 * max(values), name="SD"),
                inches=(4.2, 3.0),
            )
        )
    return panels


def plot_curves(
    x: Sequence[float],
    curves: Sequence[tuple[str, str, Sequence[float]]],
    *,
    write_x: Callable[[float], str] = pic.write_number,
    write_y: Callable[[float], str] = pic.write_number,
) -> list[pic.Mark]:
    """A line with its points for each (name, kind, values)."""
    marks: list[pic.Mark] = []
    for name, kind, y in curves:
        told = [f"{name}: {write_y(b)} at {write_x(a)}" for a, b in zip(x, y, strict=True)]
        marks += [pic.Line(kind, x, y, name), pic.Points(kind, x, y, size=2.6, told=told)]
    return marks


# --- tables and images -------------------------------------------------------------------------


def plot_cross(table: pd.DataFrame, *, covariate: str = "", n_labels: int = 20) -> list[pic.Heat]:
    """Label × covariate in one environment: shares of each label, before and after."""
    labels, values = (list(dict.fromkeys(table[name])) for name in ("label", "value"))
    full = max(float(table[["before", "after"]].max(axis=None)), 0.2)
    before, after = (
        table.pivot(index="label", columns="value", values=when)
        .reindex(index=labels, columns=values)
        .to_numpy(dtype=np.float64, na_value=0.0)[:n_labels]
        for when in ("before", "after")
    )
    names = [str(label) for label in labels[:n_labels]], [str(value) for value in values]
    return _pair_heats(before, after, *names, full=full, x_name=covariate)


def _pair_heats(
    before: Floats, after: Floats, labels: Sequence[str], values: Sequence[str], **style: Any
) -> list[pic.Heat]:
    return [
        pic.Heat("random batches", before, labels, values, kind="before", **style),
        pic.Heat("balanced batches", after, labels, values, kind="after", **style),
    ]


def draw_tables(
    before: NDArray, after: NDArray, *, label_names: Sequence[str], covariate_name: str
) -> Figure:
    """Counts of label × covariate as shares of each label: random and balanced batches."""
    values = [str(i) for i in range(before.shape[1])]
    random, balanced = (
        np.asarray(table / np.where(total > 0, total, 1), dtype=np.float64)
        for table in (before, after)
        for total in [table.sum(axis=1, keepdims=True)]
    )
    names: dict[str, Any] = {"x_name": covariate_name, "y_name": "label"}
    return draw_figure(_pair_heats(random, balanced, label_names, values, **names))


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
                shown[label, : len(members)] = pic.to_rgb(dataset.fetch(members))
        images = shown.reshape(-1, *shown.shape[2:])
        tables.append(pic.ImageTable(title, images, dataset.label_names, [""] * n_columns))
    return draw_figure(tables)


def draw_counterfactuals(
    model: LatentCovariateModel,
    dataset: EnvironmentDataset,
    examples: Ints,
    labels: Ints,
    environments: Ints,
) -> Figure:
    """Examples, and decoded with z kept and y changed (Figure 5); labels are the model's codes."""
    found = decode_counterfactuals(model, dataset, examples, labels, environments)
    return draw_figure([plot_counterfactuals(found, labels, dataset.label_names, n_labels=None)])


def plot_counterfactuals(
    found: Counterfactuals,
    labels: Ints,
    label_names: Sequence[str],
    *,
    n_labels: int | None = MOST_LABELS,
) -> pic.ImageTable:
    """A row for each example: itself, then decoded under every label with its z kept."""
    decoded = found.decoded[:, :n_labels]
    both = torch.cat([found.originals[:, None], decoded], dim=1).flatten(0, 1)
    names = [f"y={name}" for name in label_names]
    return pic.ImageTable(
        "z kept, y changed",
        pic.to_rgb(both, pic.find_brightness(found.originals)),
        [names[label] for label in labels],
        ["x", *names[:n_labels]],
        own=[int(label) + 1 for label in labels],
    )


def plot_traversals(found: Traversals, originals: torch.Tensor) -> pic.ImageTable:
    """One z moved at a time; `originals` say what is black and what is white."""
    offsets = ["0" if abs(o) < 0.05 else f"{o:+.1f}".replace("-", "−") for o in found.offsets]
    images = pic.to_rgb(found.decoded.flatten(0, 1), pic.find_brightness(originals))
    return pic.ImageTable(
        "one z moved at a time", images, [f"z{i + 1}" for i in found.dimensions], offsets
    )


def plot_effects(effects: FeatureEffects, study: Study) -> list[pic.Heat]:
    """What label and z do to the features of a table that they move most."""
    strength = np.abs(effects.by_label).max(axis=1) + np.abs(effects.by_z).max(axis=1)
    shown = np.sort(np.argsort(-strength, kind="stable")[:MOST_FEATURES])
    names = [study.feature_names[i] for i in shown]
    z = [f"z{i + 1}" for i in range(effects.by_z.shape[1])]
    by_label = effects.by_label[shown][:, :MOST_LABELS]
    tables = (
        ("z kept, y changed", by_label, study.label_names[:MOST_LABELS]),
        ("y kept, one z from −1 to +1 standard deviation", effects.by_z[shown], z),
    )
    return [pic.Heat(t, cells, names, c, full=2.0, write=_write_effect) for t, cells, c in tables]


def plot_gallery(study: Study, anchors: Sequence[ShownAnchor]) -> pic.ImageTable:
    """A row for each anchor: itself, then its nearest match of each label; blank for none."""
    labels = study.label_names[:MOST_LABELS]
    shown = np.full((len(anchors), len(labels) + 1), -1)
    for i, anchor in enumerate(anchors):
        shown[i, 0] = anchor.example
        for match in reversed(anchor.matches):  # nearest last, so that it stays
            if match.label < len(labels):
                shown[i, match.label + 1] = match.example
    rows = shown.ravel()
    x = study.found.source.fetch(np.where(rows < 0, 0, rows))
    images = pic.to_rgb(x, pic.find_brightness(x))
    images[rows < 0] = 1.0
    own = [f"y={study.label_names[study.found.labels[anchor.example]]}" for anchor in anchors]
    columns = ["anchor", *(f"y={name}" for name in labels)]
    return pic.ImageTable("anchors and their nearest matches", images, own, columns)


def _write_effect(value: float) -> str:
    return pic.write_number(round(value, 2)) if abs(value) >= 0.005 else "0"
