"""Sections on the balance: the verdict, links that vary, covariates, overlap, reuse, settings."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from equipoise.balance import POOLED, effective_sample_size
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.report import figures, html
from equipoise.report.pictures import write_number, write_share
from equipoise.report.svg import render_heat, render_legend, render_panel

MOST_COVARIATES, MOST_ENVIRONMENTS, MOST_LABELS, MOST_LISTED = 4, 8, 20, 100

# The recommendation -> the colour it is shown in.
COLORS = {"balance": "good", "trade-off": "fair", "leave as it is": "good", "cannot tell": "fair"}


# --- the verdict -------------------------------------------------------------------------------


def draw_verdict(diagnostics: BalanceDiagnostics) -> html.Html:
    """The recommendation, a sentence, what it rests on, what to do, and a few figures."""
    verdict = diagnostics.verdict
    word, panel = verdict.recommendation, figures.plot_situations(diagnostics.situations)
    picture = panel and html.element("div", render_panel(panel), class_="situations")
    return html.element(
        "section",
        html.element("p", "Recommendation: ", html.element("b", word), class_="level"),
        html.element("p", verdict.headline, class_="headline"),
        html.show_facts(_list_figures(diagnostics)),
        picture,
        html.list_sentences("What was found", verdict.findings),
        html.list_sentences("What to do", verdict.advice),
        class_=f"card verdict level-{COLORS.get(word, 'fair')}",
        id="verdict",
    )


def _list_figures(diagnostics: BalanceDiagnostics) -> list[tuple[str, Any, str]]:
    verdict = diagnostics.verdict
    facts: list[tuple[str, Any, str]] = []
    for name, words, where in (
        ("price", ("lost", "gained"), "where the link stays as it is"),
        ("protection", ("gained", "lost"), "where the link is reversed"),
    ):
        value = float(getattr(verdict, name, math.nan))
        if math.isfinite(value):
            points = write_points(value, float(getattr(verdict, f"{name}_error", math.nan)))
            # A negative price is a gain, and is called one.
            note = f"points of accuracy {words[value < 0]} {where}"
            facts.append((name, points, note) if value >= 0 else (name, "none", f"{points} {note}"))
    size = effective_sample_size(diagnostics.weights)
    note = f"of {diagnostics.n_examples:,} examples"
    facts.append(("effective sample size", write_share(size / diagnostics.n_examples), note))
    return facts


def write_points(value: float, error: float) -> str:
    """The size of a change in percentage points, with its standard error where it is known.

    >>> write_points(9.96, 0.84), write_points(-0.3, float("nan"))
    ('10.0 ± 0.8', '0.3')
    """
    spread = f" ± {error:.1f}" if math.isfinite(error) else ""
    return f"{abs(value):.1f}{spread}"


def _list_moves(diagnostics: BalanceDiagnostics) -> list[tuple[str, Any, str]]:
    """What z differs by and predicts, before and after."""
    facts: list[tuple[str, Any, str]] = []
    worst, information = diagnostics.worst, diagnostics.information
    z = worst[(worst["kind"] == "z") & (worst["environment"] != POOLED)]
    if len(z):
        moved = _move(z["smd_before"].max(), z["smd_after"].max())
        facts.append(("worst difference between labels in z", moved, "SD; below 0.1 is small"))
    told = information[(information["kind"] == "z") & (information["environment"] == POOLED)]
    if len(told):
        row = told.iloc[0]
        note = f"nats, of a label entropy of {write_number(row['label_entropy'])}"
        moved = _move(max(row["before"], 0.0), max(row["after"], 0.0))
        facts.append(("information of z about the label", moved, note))
    return facts


def _move(before: float, after: float) -> html.Html:
    first, last = (write_number(round(float(value), 3)) for value in (before, after))
    parts = (("from", first), ("arrow", "→"), ("to", last))
    return html.join(html.element("span", text, class_=kind) for kind, text in parts)


def make_varying(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """The search for links that vary: a row for each step, every test of it below."""
    table = diagnostics.varying
    if not len(table):
        return None
    steps = table.drop_duplicates("hypothesis")[["hypothesis", "joint_p_value"]]
    return html.Section(
        "varying",
        "Links that vary",
        "A covariate may be spurious where its link with the label differs between environments. "
        "Each row asks whether anything varies beside what was found before. p is the probability "
        "of a difference this large if the link were the same in all environments.",
        html.frame_figure(
            _list_tests(steps.rename(columns={"joint_p_value": "p_value"})),
            html.fold("Every test", _list_tests(table)),
        ),
    )


def _list_tests(table: pd.DataFrame) -> html.Html:
    """Text first, numbers after it."""
    numbers = [name for name in table if pd.api.types.is_float_dtype(table[name])]
    names = [name for name in table if name not in numbers] + numbers
    columns: html.Columns = {
        name: (name.replace("p_value", "p").replace("_", " "), partial(_write_cell, name))
        for name in names
    }
    return html.list_columns(table.head(MOST_LISTED), columns, n_text=len(names) - len(numbers))


def _write_cell(name: str, value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    if name.endswith("p_value") and 0 <= value < 0.001:
        return "< 0.001"
    return write_number(value)


# --- covariates --------------------------------------------------------------------------------


def make_love(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """All environments together first, then each by itself."""
    worst = diagnostics.worst
    if not len(worst):
        return None
    panels = []
    for place in (POOLED, *diagnostics.environment_names[:MOST_ENVIRONMENTS]):
        table = worst[worst["environment"] == place]
        if len(table):
            name = _name_place(place)
            listed = table.assign(_given=table["kind"] == "given").sort_values(
                ["_given", "smd_before"], ascending=False, kind="stable"
            )
            numbers = _fold_numbers(listed, LOVE, "covariates", "differed most", n_text=3)
            panels.append(
                (name, html.join([render_panel(figures.plot_love(table, place=name)), numbers]))
            )
    if not panels:
        return None
    lead = (
        "The largest difference between two labels in each covariate, in standard deviations of "
        "the unmatched data. z are the coordinates that were balanced; a square is about "
        "spread, a product about correlation."
    )
    if (worst["kind"] == "feature").any():
        lead += " A feature of the table may still differ: the label itself may cause it."
    facts = _list_moves(diagnostics)
    body = [
        html.show_facts(facts) if facts else None,
        html.frame_figure(html.offer_environments(panels, prefix="love")),
    ]
    return html.Section("balance", "Balance before and after", lead, html.join(body))


LOVE: html.Columns = {
    "covariate": ("covariate", str),
    "pair_before": ("pair before", str),
    "pair_after": ("pair after", str),
    "smd_before": ("SMD before", write_number),
    "smd_after": ("after", write_number),
    "variance_ratio_before": ("variance ratio before", write_number),
    "variance_ratio_after": ("after", write_number),
    "ks_before": ("KS before", write_number),
    "ks_after": ("after", write_number),
}


def _name_place(place: str) -> str:
    return "all environments" if place == POOLED else place


def _fold_numbers(
    table: pd.DataFrame, columns: html.Columns, what: str, why: str, *, n_text: int
) -> html.Html:
    """The first rows of a sorted table behind a line to click, which says why they are first."""
    shown = table.head(MOST_LISTED)
    cut = f", those of {len(table)} that {why}" if len(shown) < len(table) else ""
    rows = html.list_columns(shown, columns, n_text=n_text)
    return html.fold(f"Numbers of {len(shown)} {what}{cut}", rows)


def make_cross(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """Two tables side by side for each covariate, and a choice of environment."""
    cross = diagnostics.cross
    if not len(cross):
        return None
    shown = []
    for i, covariate in enumerate(list(cross["covariate"].unique())[:MOST_COVARIATES]):
        of_it = cross[cross["covariate"] == covariate]
        # All together first, where the tables have it.
        places = sorted(of_it["environment"].unique(), key=lambda place: place != POOLED)
        panels = []
        for place in places[: MOST_ENVIRONMENTS + 1]:
            heats = figures.plot_cross(of_it[of_it["environment"] == place], n_labels=MOST_LABELS)
            names = heats[0].columns
            wide = len(names) > 5 and max(len(name) for name in names) > 5
            halves = html.join(html.element("div", render_heat(heat)) for heat in heats)
            pair = html.element("div", halves, class_="columns stacked" if wide else "columns")
            panels.append((_name_place(str(place)), pair))
        choice = html.offer_environments(panels, prefix=f"cross-{i}")
        shown.append(html.frame_figure(choice, title=f"Label × {covariate}"))
    lead = (
        "The share of each label's examples, in percent, that has each value of the covariate. "
        "In balanced batches the rows of the table should be alike."
    )
    n_labels = len(diagnostics.label_names)
    if n_labels > MOST_LABELS:
        lead += f" The first {MOST_LABELS} of {n_labels} labels."
    return html.Section("tables", "Label and covariate", lead, html.join(shown))


# --- matching and weighting --------------------------------------------------------------------


def make_overlap(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """Pairs with the least overlap first, a choice of environment, and all numbers."""
    if not len(diagnostics.overlap):
        return None
    panels, legend = [], None
    for environment in diagnostics.environment_names[:MOST_ENVIRONMENTS]:
        drawn = []
        for panel in figures.plot_overlap(diagnostics, environment):
            legend = legend or render_legend(panel.marks)
            caption = html.element("figcaption", panel.caption, title=panel.caption)
            drawn.append(
                html.element("figure", caption, render_panel(panel, legend=False), class_="pair")
            )
        if drawn:
            panels.append((environment, html.element("div", html.join(drawn), class_="panels")))
    if not panels:
        return None
    lead = (
        "Two labels at a time: the share of their examples over the propensity score, which is "
        "the probability of the first given z. Where only one side has examples, no good match "
        "exists. Heights are on a square-root scale."
    )
    n_pairs = len(diagnostics.label_names) * (len(diagnostics.label_names) - 1) // 2
    if n_pairs > figures.MOST_PAIRS:
        lead += f" The {figures.MOST_PAIRS} of {n_pairs} pairs that overlapped least are drawn."
    choice = html.offer_environments(panels, prefix="overlap")
    table = diagnostics.overlap.sort_values("overlap_before", kind="stable")
    table = table.assign(pair=table["first"] + " – " + table["second"])
    numbers = _fold_numbers(table, OVERLAP, "pairs", "overlapped least", n_text=2)
    return html.Section(
        "overlap", "Overlap of scores", lead, html.frame_figure(legend, choice, numbers)
    )


OVERLAP: html.Columns = {
    "environment": ("environment", str),
    "pair": ("pair", str),
    "overlap_before": ("overlap before", write_share),
    "overlap_after": ("after", write_share),
    "first_in_support": ("first within the second's range", write_share),
    "second_in_support": ("second within the first's", write_share),
}


def make_use(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """Reuse as a histogram, effective sizes by label, distances by quantile."""
    use = diagnostics.use
    if not len(use):
        return None
    share = int(use["ever_matched"].sum()) / diagnostics.n_examples
    note = (
        f"{write_share(share)} of the examples serve as a match; the most used appears "
        f"{write_number(float(use['largest_weight'].max()))} times."
    )
    reuse = render_panel(figures.plot_reuse(diagnostics.reuse))
    columns = [html.frame_figure(reuse, html.write_note(note), title="Reuse")]
    distances = diagnostics.distances
    if len(distances):
        table = html.list_columns(distances[distances["environment"] == POOLED], DISTANCES)
        title = f"Distances of matches ({diagnostics.metric})"
        columns.append(html.frame_figure(table, title=title))
    shown = use.sort_values("effective_size", kind="stable").head(MOST_LISTED)
    by_label = html.fold("By environment and label", html.list_columns(shown, USE, n_text=2))
    return html.Section(
        "use",
        "Reuse and distances",
        "Rare examples are shown more often than common ones: that is how balance is made. A "
        "model may memorise a few examples that carry most of the weight. The effective sample "
        "size is the number of equally weighted examples that carry as much information.",
        html.join([html.element("div", *columns, class_="columns"), by_label]),
    )


DISTANCES: html.Columns = {
    "quantile": ("quantile", lambda q: {0.0: "nearest", 1.0: "farthest"}.get(q, f"{q:.0%}")),
    "nearest": ("nearest match", write_number),
    "kept": ("all a batch may draw", write_number),
}
USE: html.Columns = {
    "environment": ("environment", str),
    "label": ("label", str),
    "examples": ("examples", "{:,}".format),
    "ever_matched": ("ever a match", "{:,}".format),
    "effective_size": ("effective size", "{:,.0f}".format),
    "largest_weight": ("most appearances", write_number),
    "anchors_without": ("anchors without such a match", "{:,}".format),
}


def make_tuning(diagnostics: BalanceDiagnostics) -> html.Section | None:
    """Balance against the number of matches and against the caliper."""
    shown = []
    for panel in figures.plot_tuning(diagnostics):
        title, note = "Number of matches", None
        if "caliper" in panel.title:
            calipers = diagnostics.by_caliper["caliper"]
            ends = (write_number(float(end)) for end in (calipers.min(), calipers.max()))
            note = "From a caliper of {} on the left to {} on the right.".format(*ends)
            title = "Caliper"
        shown.append(html.frame_figure(render_panel(panel), html.write_note(note), title=title))
    if not shown:
        return None
    return html.Section(
        "tuning",
        "Other settings",
        "Balance with fewer matches for each anchor, or with a caliper that drops distant ones. "
        "Differences are between labels in z within environments, in standard deviations. A "
        "caliper that costs many matches and gains no balance is not worth it.",
        html.element("div", *shown, class_="columns"),
    )


METHODS: html.Columns = {
    "method": ("method", str),
    "effective_sample_size": (
        "effective sample size",
        lambda size: f"{size:,.0f}" if size >= 0 else "–",
    ),
    "effective_share": ("share of examples", write_share),
    "largest_weight": ("largest weight", write_number),
    "worst_smd_before": ("worst SMD before", write_number),
    "worst_smd_after": ("after", write_number),
    "mean_smd_after": ("mean SMD after", write_number),
    "information_before": ("information before, nats", write_number),
    "information_after": ("after", write_number),
}


def make_methods(methods: pd.DataFrame) -> html.Section:
    """Matching, overlap weights and entropy balancing, a row each with the columns of `METHODS`."""
    pictures = html.join(
        html.frame_figure(render_panel(panel)) for panel in figures.plot_methods(methods)
    )
    table = html.frame_figure(html.list_columns(methods, METHODS))
    return html.Section(
        "methods",
        "Methods compared",
        "Each method weights the same examples so that the labels agree in the covariates. A good "
        "one leaves small differences and keeps a large effective sample size.",
        html.join([html.element("div", pictures, class_="columns"), table]),
    )
