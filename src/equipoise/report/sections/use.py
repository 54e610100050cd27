"""Who is used how often, and how far matches are."""

from __future__ import annotations

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.bars import draw_bars
from equipoise.report.charts.frame import write_number, write_share
from equipoise.report.html import Html, element
from equipoise.report.sections.section import Section, fold, frame_figure, list_numbers

MOST_LISTED = 80


def make_use(diagnostics: BalanceDiagnostics) -> Section:
    """Reuse as a histogram, effective sizes by label, distances by quantile."""
    names, counts = name_bins(diagnostics.reuse)
    use = diagnostics.use
    ever = int(use["ever_matched"].sum())
    bars = draw_bars(
        names,
        counts,
        title="How many examples appear how often, when each is an anchor once",
        x_name="expected appearances",
    )
    left = frame_figure(
        bars,
        element(
            "p",
            f"{write_share(ever / diagnostics.n_examples)} of the examples serve as a match; the "
            f"busiest appears {write_number(float(use['largest_weight'].max()))} times.",
            class_="note",
        ),
        title="Reuse",
    )
    right = frame_figure(
        _list_distances(diagnostics), title=f"Distances of matches ({diagnostics.metric})"
    )
    return Section(
        "use",
        "Reuse and distances",
        "Rare examples are shown more often than common ones: that is how balance is made. Few "
        "examples that carry most of the weight are easily learned by heart; the effective "
        "sample size says how many equally weighted examples carry as much.",
        Html(element("div", left, right, class_="columns") + _list_use(use)),
    )


def name_bins(reuse: pd.DataFrame) -> tuple[list[str], list[float]]:
    """Names and counts of the bins of appearances."""
    names = []
    for low, high in zip(reuse["at_least"], reuse["below"], strict=True):
        names.append(f"{low:g}–{high:g}")
    return names, [float(count) for count in reuse["examples"]]


def _list_distances(diagnostics: BalanceDiagnostics) -> Html:
    table = diagnostics.distances[diagnostics.distances["environment"] == POOLED]
    rows = [
        [
            "farthest" if quantile == 1 else "nearest" if quantile == 0 else f"{quantile:.0%}",
            write_number(float(nearest)),
            write_number(float(kept)),
        ]
        for quantile, nearest, kept in zip(
            table["quantile"], table["nearest"], table["kept"], strict=True
        )
    ]
    return list_numbers(["quantile", "nearest match", "all a batch may draw"], rows)


def _list_use(use: pd.DataFrame) -> Html:
    shown = use.sort_values("effective_size", kind="stable").head(MOST_LISTED)
    rows = [
        [
            row["environment"],
            row["label"],
            f"{row['examples']:,}",
            f"{row['ever_matched']:,}",
            f"{row['effective_size']:,.0f}",
            write_number(float(row["largest_weight"])),
            f"{row['anchors_without']:,}",
        ]
        for _, row in shown.iterrows()
    ]
    columns = ["environment", "label", "examples", "ever a match", "effective size"]
    columns += ["most appearances", "anchors without such a match"]
    return fold("By environment and label", list_numbers(columns, rows, n_text=2))
