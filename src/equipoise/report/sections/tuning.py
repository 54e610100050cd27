"""What another caliper, or another number of matches, would do."""

from __future__ import annotations

from equipoise.balance.balance_table import THRESHOLD
from equipoise.balance.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import write_number, write_share
from equipoise.report.charts.lines import Series, draw_lines
from equipoise.report.html import Html, element
from equipoise.report.sections.section import Section, frame_figure


def make_tuning(diagnostics: BalanceDiagnostics) -> Section | None:
    """Balance against the caliper and against a."""
    figures = [_draw_numbers(diagnostics), _draw_calipers(diagnostics)]
    shown = [figure for figure in figures if figure is not None]
    if not shown:
        return None
    return Section(
        "tuning",
        "Other settings",
        "What would change with fewer matches for each anchor, or with a caliper that drops far "
        "ones. Differences are those of labels in z within environments, in standard "
        "deviations. A caliper that costs many matches and gains no balance is not worth it.",
        element("div", *shown, class_="columns"),
    )


def _draw_numbers(diagnostics: BalanceDiagnostics) -> Html | None:
    table = diagnostics.by_n_matches
    if len(table) < 2:
        return None
    x = [float(a) for a in table["n_matches"]]
    series = [
        Series("worst difference", "before", x, table["worst_smd"].tolist()),
        Series("mean difference", "after", x, table["mean_smd"].tolist()),
    ]
    chart = draw_lines(
        series,
        title="Balance against the number of matches",
        x_name="matches of an anchor, a",
        threshold=THRESHOLD,
    )
    return frame_figure(chart, title="Number of matches")


def _draw_calipers(diagnostics: BalanceDiagnostics) -> Html | None:
    table = diagnostics.by_caliper
    if len(table) < 2:
        return None
    x = [float(share) for share in table["matched"]]
    series = [
        Series("worst difference", "before", x, table["worst_smd"].tolist()),
        Series("mean difference", "after", x, table["mean_smd"].tolist()),
        Series("effective size, as a share", "third", x, table["effective_size"].tolist()),
    ]
    chart = draw_lines(
        series,
        title="Balance against the caliper",
        x_name="matches kept by the caliper",
        threshold=THRESHOLD,
        write_x=write_share,
    )
    note = (
        f"From a caliper of {write_number(float(table['caliper'].min()))} on the left to "
        f"{write_number(float(table['caliper'].max()))} on the right."
    )
    return frame_figure(chart, element("p", note, class_="note"), title="Caliper")
