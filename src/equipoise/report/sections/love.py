"""The Love plot, by environment, with the numbers behind it."""

from __future__ import annotations

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import write_number
from equipoise.report.charts.love import LoveRow, draw_love
from equipoise.report.html import Html
from equipoise.report.sections.section import (
    Section,
    fold,
    frame_figure,
    list_numbers,
    offer_choice,
)

MOST_ROWS, MOST_ENVIRONMENTS, MOST_LISTED = 24, 12, 150


def make_love(diagnostics: BalanceDiagnostics) -> Section:
    """All environments together first, then each by itself."""
    worst = diagnostics.worst
    places = [POOLED, *diagnostics.environment_names[:MOST_ENVIRONMENTS]]
    panels = []
    for place in places:
        table = worst[worst["environment"] == place]
        if len(table):
            name = "all environments" if place == POOLED else place
            panels.append((name, _draw_panel(table, name)))
    lead = (
        "How far the two labels that differ most lie apart in each covariate, in standard "
        "deviations of the unmatched data. z are the coordinates of the learned covariate; a "
        "square is about its spread, a product about correlation."
    )
    if (worst["kind"] == "feature").any():
        lead += " A feature of the table may go on differing: the label itself may move it."
    return Section(
        "balance",
        "Balance before and after",
        lead,
        frame_figure(offer_choice(panels, prefix="love", what="Environment")),
    )


def choose_rows(table: pd.DataFrame) -> list[LoveRow]:
    """What a plot shows: known covariates, features and z first, then what differs most."""
    table = table[table["smd_before"].notna() & table["smd_after"].notna()]
    table = table[table["kind"] != "score"]
    first = table["kind"].isin(["known", "feature", "z"])
    size = table[["smd_before", "smd_after"]].max(axis=1)
    order = table.assign(_first=first, _size=size).sort_values(
        ["_first", "_size"], ascending=False, kind="stable"
    )
    order = order.head(MOST_ROWS).sort_values("_size", ascending=False, kind="stable")
    return [
        LoveRow(str(name), float(before), float(after))
        for name, before, after in zip(
            order["covariate"], order["smd_before"], order["smd_after"], strict=True
        )
    ]


def _draw_panel(table: pd.DataFrame, place: str) -> Html:
    rows = choose_rows(table)
    title = f"Love plot, {place}: largest difference between two labels in {len(rows)} covariates"
    chart = draw_love(rows, title=title, threshold=THRESHOLD)
    listed = table.sort_values("smd_before", ascending=False, kind="stable").head(MOST_LISTED)
    columns = ["covariate", "pair before", "pair after", "SMD before", "after"]
    columns += ["variance ratio before", "after", "KS before", "after"]
    numbers = [f"{name}_{when}" for name in ("smd", "variance_ratio", "ks") for when in WHEN]
    lines = [
        [
            row["covariate"],
            row["pair_before"],
            row["pair_after"],
            *(write_number(float(row[name])) for name in numbers),
        ]
        for _, row in listed.iterrows()
    ]
    what = f"Numbers of {len(listed)} covariates"
    if len(listed) < len(table):
        what += f", those of {len(table)} that differed most"
    return Html(chart + fold(what, list_numbers(columns, lines, n_text=3)))


WHEN = ("before", "after")
