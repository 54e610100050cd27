"""Whether two labels' scores cover the same ground."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import draw_legend, write_share
from equipoise.report.charts.overlap import PairOverlap, draw_overlap
from equipoise.report.html import Html, element, join
from equipoise.report.sections.section import (
    Section,
    fold,
    frame_figure,
    list_numbers,
    offer_choice,
)

MOST_PAIRS, MOST_ENVIRONMENTS, MOST_LISTED = 9, 8, 60


def make_overlap(diagnostics: BalanceDiagnostics) -> Section:
    """Pairs with the least overlap first, a choice of environment, and all numbers."""
    panels = []
    for environment in diagnostics.environment_names[:MOST_ENVIRONMENTS]:
        pairs = choose_pairs(diagnostics, environment, MOST_PAIRS)
        if pairs:
            drawn = element("div", join(draw_overlap(pair) for pair in pairs), class_="panels")
            panels.append((environment, drawn))
    legend = draw_legend([("outline", "random batches"), ("fill", "balanced batches")])
    lead = (
        "Two labels at a time: the share of their examples over the propensity score, the "
        "probability of the first label given z and that it is one of the two. Where only one "
        "side has examples, nothing can be matched well. Heights are on a square-root scale."
    )
    n_pairs = len(diagnostics.label_names) * (len(diagnostics.label_names) - 1) // 2
    if n_pairs > MOST_PAIRS:
        lead += f" The {MOST_PAIRS} of {n_pairs} pairs that overlapped least are drawn."
    body = frame_figure(
        legend, offer_choice(panels, prefix="overlap", what="Environment"), _list_all(diagnostics)
    )
    return Section("overlap", "Overlap of scores", lead, body)


def choose_pairs(
    diagnostics: BalanceDiagnostics, environment: str, n_at_most: int
) -> list[PairOverlap]:
    """The pairs of an environment that overlapped least before, with their histograms."""
    table = diagnostics.overlap[diagnostics.overlap["environment"] == environment]
    table = table.sort_values("overlap_before", kind="stable").head(n_at_most)
    histograms = diagnostics.histograms
    histograms = histograms[histograms["environment"] == environment]
    by_pair = {
        (str(first), str(second)): part
        for (first, second), part in histograms.groupby(["first", "second"], observed=True)
    }
    return [
        _read_pair(str(first), str(second), by_pair[str(first), str(second)])
        for first, second in zip(table["first"], table["second"], strict=True)
        if (str(first), str(second)) in by_pair
    ]


def _read_pair(first: str, second: str, part: pd.DataFrame) -> PairOverlap:
    columns = ("first_before", "second_before", "first_after", "second_after")
    return PairOverlap(first, second, *(part[c].to_numpy(dtype=np.float64) for c in columns))


def _list_all(diagnostics: BalanceDiagnostics) -> Html:
    table = diagnostics.overlap.sort_values("overlap_before", kind="stable")
    shown = table.head(MOST_LISTED)
    shares = ["overlap_before", "overlap_after", "first_in_support", "second_in_support"]
    rows = [
        [
            row["environment"],
            f"{row['first']} – {row['second']}",
            *(write_share(float(row[name])) for name in shares),
        ]
        for _, row in shown.iterrows()
    ]
    columns = ["environment", "pair", "overlap before", "after"]
    columns += ["first within the second's range", "second within the first's"]
    what = f"Numbers of {len(shown)} pairs"
    if len(shown) < len(table):
        what += f", those of {len(table)} that overlapped least"
    return fold(what, list_numbers(columns, rows, n_text=2))
