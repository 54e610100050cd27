"""What another caliper, or another number of matches, would do."""

from __future__ import annotations

from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import write_number, write_share
from equipoise.report.charts.lines import Series, draw_lines
from equipoise.report.html import Html, element
from equipoise.report.sections.section import Section, frame_figure

X_NAMES = ("matches of an anchor, a", "matches kept by the caliper")


def make_tuning(diagnostics: BalanceDiagnostics) -> Section | None:
    """Balance against the number of matches and against the caliper."""
    titles = dict(zip(X_NAMES, ("Number of matches", "Caliper"), strict=True))
    figures = []
    for x_name, series in trace_settings(diagnostics):
        by_caliper = x_name == X_NAMES[1]
        chart = draw_lines(
            series,
            title=f"Balance against the {x_name}",
            x_name=x_name,
            threshold=THRESHOLD,
            write_x=write_share if by_caliper else write_number,
        )
        note = _tell_calipers(diagnostics) if by_caliper else None
        figures.append(frame_figure(chart, note, title=titles[x_name]))
    if not figures:
        return None
    return Section(
        "tuning",
        "Other settings",
        "What would change with fewer matches for each anchor, or with a caliper that drops far "
        "ones. Differences are those of labels in z within environments, in standard "
        "deviations. A caliper that costs many matches and gains no balance is not worth it.",
        element("div", *figures, class_="columns"),
    )


def trace_settings(diagnostics: BalanceDiagnostics) -> list[tuple[str, list[Series]]]:
    """The curves over each setting that has more than one value to compare."""
    panels = []
    tables = (diagnostics.by_n_matches, diagnostics.by_caliper)
    for x_name, column, table in zip(X_NAMES, ("n_matches", "matched"), tables, strict=True):
        if len(table) > 1:
            x = [float(value) for value in table[column]]
            panels.append(
                (
                    x_name,
                    [
                        Series("worst difference", "before", x, table["worst_smd"].tolist()),
                        Series("mean difference", "after", x, table["mean_smd"].tolist()),
                        Series("effective share", "third", x, table["effective_size"].tolist()),
                    ],
                )
            )
    return panels


def _tell_calipers(diagnostics: BalanceDiagnostics) -> Html:
    calipers = diagnostics.by_caliper["caliper"]
    text = (
        f"From a caliper of {write_number(float(calipers.min()))} on the left to "
        f"{write_number(float(calipers.max()))} on the right."
    )
    return element("p", text, class_="note")
