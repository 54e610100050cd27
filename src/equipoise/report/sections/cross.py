"""Label × covariate, before and after."""

from __future__ import annotations

import numpy as np
import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.heat import draw_heat
from equipoise.report.html import Html, element, join
from equipoise.report.sections.section import Section, frame_figure, offer_choice

MOST_COVARIATES, MOST_ENVIRONMENTS, MOST_LABELS = 4, 6, 20


def make_cross(diagnostics: BalanceDiagnostics) -> Section | None:
    """Two tables side by side for each covariate, and a choice of environment."""
    cross = diagnostics.cross
    if not len(cross):
        return None
    figures = []
    for i, covariate in enumerate(list(cross["covariate"].unique())[:MOST_COVARIATES]):
        of_it = cross[cross["covariate"] == covariate]
        places = list(of_it["environment"].unique())
        # All together first, where the tables have it.
        places = sorted(places, key=lambda place: place != POOLED)[: MOST_ENVIRONMENTS + 1]
        panels = [
            (
                "all environments" if place == POOLED else str(place),
                _draw_pair(of_it[of_it["environment"] == place], str(covariate)),
            )
            for place in places
        ]
        figures.append(
            frame_figure(
                offer_choice(panels, prefix=f"cross-{i}", what="Environment"),
                title=f"Label × {covariate}",
            )
        )
    n_labels = len(diagnostics.label_names)
    cut = f" The first {MOST_LABELS} of {n_labels} labels." if n_labels > MOST_LABELS else ""
    return Section(
        "tables",
        "Label and covariate",
        "Of the examples of each label, the share in percent that has each value of the "
        "covariate. Balanced, the rows of the table on the right are alike." + cut,
        join(figures),
    )


def _draw_pair(table: pd.DataFrame, covariate: str) -> Html:
    halves = []
    full = max(float(table[["before", "after"]].max(axis=None)), 0.2)
    for when, name in (("before", "random batches"), ("after", "balanced batches")):
        rows, columns, shares = arrange_cross(table, when)
        halves.append(
            element(
                "div",
                draw_heat(
                    shares[:MOST_LABELS],
                    rows[:MOST_LABELS],
                    columns,
                    caption=name,
                    corner="",
                    kind=when,
                    full=full,
                ),
            )
        )
    wide = len(columns) > 5 and max(len(name) for name in columns) > 5
    return element("div", join(halves), class_="columns stacked" if wide else "columns")


def arrange_cross(
    table: pd.DataFrame, when: str
) -> tuple[list[str], list[str], np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Labels, values and the shares [labels, values] of one covariate in one environment."""
    labels = list(dict.fromkeys(table["label"]))
    values = list(dict.fromkeys(table["value"]))
    shares = table.pivot(index="label", columns="value", values=when).reindex(
        index=labels, columns=values
    )
    return (
        [str(label) for label in labels],
        [str(value) for value in values],
        shares.to_numpy(dtype=np.float64, na_value=0.0),
    )
