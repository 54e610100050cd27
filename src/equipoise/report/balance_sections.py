"""Sections on the balance: the verdict, links that vary, covariates, overlap, reuse, settings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from equipoise.balance import POOLED, effective_sample_size
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.report.figures import (
    MOST_PAIRS,
    plot_cross,
    plot_love,
    plot_methods,
    plot_overlap,
    plot_reuse,
    plot_situations,
    plot_tuning,
)
from equipoise.report.html import (
    Html,
    Section,
    element,
    fold,
    frame_figure,
    join,
    list_numbers,
    list_sentences,
    offer_choice,
    show_facts,
    write_note,
)
from equipoise.report.pictures import write_number, write_share
from equipoise.report.svg import render_heat, render_legend, render_panel

MOST_COVARIATES, MOST_ENVIRONMENTS, MOST_LABELS, MOST_LISTED = 4, 8, 20, 100

# The recommendation -> the colour it is shown in.
COLORS = {
    "balance": "good",
    "trade-off": "fair",
    "leave as it is": "good",
    "cannot tell": "fair",
}


# --- the verdict -------------------------------------------------------------------------------


def draw_verdict(diagnostics: BalanceDiagnostics) -> Html:
    """The recommendation, a sentence, what it rests on, what to do, and a few figures."""
    verdict = diagnostics.verdict
    word, situations = verdict.recommendation, diagnostics.situations
    picture = None
    if situations is not None and situations[["plain", "balanced"]].notna().any(axis=None):
        picture = element("div", render_panel(plot_situations(situations)), class_="situations")
    return element(
        "section",
        element("p", "Recommendation: ", element("b", word), class_="level"),
        element("p", verdict.headline, class_="headline"),
        show_facts(_list_figures(diagnostics)),
        picture,
        element("h3", "What was found") if verdict.findings else None,
        list_sentences(verdict.findings),
        element("h3", "What to do") if verdict.advice else None,
        list_sentences(verdict.advice),
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
    z = diagnostics.worst[diagnostics.worst["kind"] == "z"]
    z = z[z["environment"] != POOLED]
    if len(z):
        before, after = float(z["smd_before"].max()), float(z["smd_after"].max())
        note = "SD; below 0.1 is small"
        facts.append(("worst difference between labels in z", _move(before, after), note))
    information = diagnostics.information
    told = information[(information["kind"] == "z") & (information["environment"] == POOLED)]
    if len(told):
        row = told.iloc[0]
        before, after = (max(float(row[when]), 0.0) for when in ("before", "after"))
        note = f"nats, of a label entropy of {write_number(row['label_entropy'])}"
        facts.append(("information of z about the label", _move(before, after), note))
    return facts


def _move(before: float, after: float) -> Html:
    return join(
        [
            element("span", write_number(round(before, 3)), class_="from"),
            element("span", "→", class_="arrow"),
            element("span", write_number(round(after, 3)), class_="to"),
        ]
    )


def make_varying(diagnostics: BalanceDiagnostics) -> Section | None:
    """The search for links that vary: a row for each step, every test of it below."""
    table = diagnostics.varying
    if not len(table):
        return None
    steps = table.drop_duplicates("hypothesis")[["hypothesis", "joint_p_value"]]
    return Section(
        "varying",
        "Links that vary",
        "A covariate may be spurious where its link with the label differs between environments. "
        "Each row asks whether anything varies beside what was found before. p is the probability "
        "of a difference this large if the link were the same in all environments.",
        frame_figure(
            _list_tests(steps.rename(columns={"joint_p_value": "p_value"})),
            fold("Every test", _list_tests(table)),
        ),
    )


def _list_tests(table: pd.DataFrame) -> Html:
    """Text first, numbers after it."""
    numbers = [name for name in table if pd.api.types.is_float_dtype(table[name])]
    names = [name for name in table if name not in numbers] + numbers
    rows = [
        [_write_cell(str(name), row[name]) for name in names]
        for _, row in table.head(MOST_LISTED).iterrows()
    ]
    heads = [str(name).replace("p_value", "p").replace("_", " ") for name in names]
    return list_numbers(heads, rows, n_text=len(names) - len(numbers))


def _write_cell(name: str, value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, float):
        return "–" if value is None else str(value)
    if name.endswith("p_value") and 0 <= value < 0.001:
        return "< 0.001"
    return write_number(value)


# --- covariates --------------------------------------------------------------------------------


def make_love(diagnostics: BalanceDiagnostics) -> Section | None:
    """All environments together first, then each by itself."""
    worst = diagnostics.worst
    if not len(worst):
        return None
    panels = []
    for place in (POOLED, *diagnostics.environment_names[:MOST_ENVIRONMENTS]):
        table = worst[worst["environment"] == place]
        if len(table):
            name = "all environments" if place == POOLED else place
            panels.append((name, _draw_love(table, name)))
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
        show_facts(facts) if facts else None,
        frame_figure(offer_choice(panels, prefix="love", what="Environment")),
    ]
    return Section("balance", "Balance before and after", lead, join(body))


def _draw_love(table: pd.DataFrame, place: str) -> Html:
    given = (table["kind"] == "given").astype(int)
    listed = table.assign(_given=given).sort_values(
        ["_given", "smd_before"], ascending=False, kind="stable"
    )
    shown = listed.head(MOST_LISTED)
    numbers = [f"{n}_{when}" for n in ("smd", "variance_ratio", "ks") for when in _WHEN]
    columns = ["covariate", "pair before", "pair after", "SMD before", "after"]
    columns += ["variance ratio before", "after", "KS before", "after"]
    lines = [
        [row["covariate"], row["pair_before"], row["pair_after"]]
        + [write_number(float(row[name])) for name in numbers]
        for _, row in shown.iterrows()
    ]
    what = f"Numbers of {len(shown)} covariates" + _tell_cut(
        len(shown), len(table), "differed most"
    )
    picture = render_panel(plot_love(table, place=place))
    return join([picture, fold(what, list_numbers(columns, lines, n_text=3))])


_WHEN = ("before", "after")


def _tell_cut(n_shown: int, n_all: int, why: str) -> str:
    return f", those of {n_all} that {why}" if n_shown < n_all else ""


def make_cross(diagnostics: BalanceDiagnostics) -> Section | None:
    """Two tables side by side for each covariate, and a choice of environment."""
    cross = diagnostics.cross
    if not len(cross):
        return None
    figures = []
    for i, covariate in enumerate(list(cross["covariate"].unique())[:MOST_COVARIATES]):
        of_it = cross[cross["covariate"] == covariate]
        # All together first, where the tables have it.
        places = sorted(of_it["environment"].unique(), key=lambda place: place != POOLED)
        panels = []
        for place in places[: MOST_ENVIRONMENTS + 1]:
            heats = plot_cross(of_it[of_it["environment"] == place], n_labels=MOST_LABELS)
            names = heats[0].columns
            wide = len(names) > 5 and max(len(name) for name in names) > 5
            halves = join(element("div", render_heat(heat)) for heat in heats)
            pair = element("div", halves, class_="columns stacked" if wide else "columns")
            panels.append(("all environments" if place == POOLED else str(place), pair))
        choice = offer_choice(panels, prefix=f"cross-{i}", what="Environment")
        figures.append(frame_figure(choice, title=f"Label × {covariate}"))
    lead = (
        "The share of each label's examples, in percent, that has each value of the covariate. "
        "In balanced batches the rows of the table should be alike."
    )
    n_labels = len(diagnostics.label_names)
    if n_labels > MOST_LABELS:
        lead += f" The first {MOST_LABELS} of {n_labels} labels."
    return Section("tables", "Label and covariate", lead, join(figures))


# --- matching and weighting --------------------------------------------------------------------


def make_overlap(diagnostics: BalanceDiagnostics) -> Section | None:
    """Pairs with the least overlap first, a choice of environment, and all numbers."""
    if not len(diagnostics.overlap):
        return None
    panels, legend = [], None
    for environment in diagnostics.environment_names[:MOST_ENVIRONMENTS]:
        drawn = []
        for panel in plot_overlap(diagnostics, environment):
            legend = legend or render_legend(panel.marks)
            caption = element("figcaption", panel.caption, title=panel.caption)
            drawn.append(
                element("figure", caption, render_panel(panel, legend=False), class_="pair")
            )
        if drawn:
            panels.append((environment, element("div", join(drawn), class_="panels")))
    if not panels:
        return None
    lead = (
        "Two labels at a time: the share of their examples over the propensity score, which is "
        "the probability of the first given z. Where only one side has examples, no good match "
        "exists. Heights are on a square-root scale."
    )
    n_pairs = len(diagnostics.label_names) * (len(diagnostics.label_names) - 1) // 2
    if n_pairs > MOST_PAIRS:
        lead += f" The {MOST_PAIRS} of {n_pairs} pairs that overlapped least are drawn."
    choice = offer_choice(panels, prefix="overlap", what="Environment")
    return Section(
        "overlap",
        "Overlap of scores",
        lead,
        frame_figure(legend, choice, _list_overlap(diagnostics.overlap)),
    )


def _list_overlap(table: pd.DataFrame) -> Html:
    shown = table.sort_values("overlap_before", kind="stable").head(MOST_LISTED)
    shares = ["overlap_before", "overlap_after", "first_in_support", "second_in_support"]
    rows = [
        [row["environment"], f"{row['first']} – {row['second']}"]
        + [write_share(float(row[name])) for name in shares]
        for _, row in shown.iterrows()
    ]
    columns = ["environment", "pair", "overlap before", "after"]
    columns += ["first within the second's range", "second within the first's"]
    what = f"Numbers of {len(shown)} pairs" + _tell_cut(len(shown), len(table), "overlapped least")
    return fold(what, list_numbers(columns, rows, n_text=2))


def make_use(diagnostics: BalanceDiagnostics) -> Section | None:
    """Reuse as a histogram, effective sizes by label, distances by quantile."""
    use = diagnostics.use
    if not len(use):
        return None
    share = int(use["ever_matched"].sum()) / diagnostics.n_examples
    note = (
        f"{write_share(share)} of the examples serve as a match; the most used appears "
        f"{write_number(float(use['largest_weight'].max()))} times."
    )
    left = frame_figure(
        render_panel(plot_reuse(diagnostics.reuse)), write_note(note), title="Reuse"
    )
    title = f"Distances of matches ({diagnostics.metric})"
    right = None
    if len(diagnostics.distances):
        right = frame_figure(_list_distances(diagnostics.distances), title=title)
    return Section(
        "use",
        "Reuse and distances",
        "Rare examples are shown more often than common ones: that is how balance is made. A "
        "model may memorise a few examples that carry most of the weight. The effective sample "
        "size is the number of equally weighted examples that carry as much information.",
        join([element("div", left, right, class_="columns"), _list_use(use)]),
    )


def _list_distances(distances: pd.DataFrame) -> Html:
    table = distances[distances["environment"] == POOLED]
    rows = []
    for quantile, nearest, kept in zip(
        table["quantile"], table["nearest"], table["kept"], strict=True
    ):
        name = {0.0: "nearest", 1.0: "farthest"}.get(float(quantile), f"{quantile:.0%}")
        rows.append([name, write_number(float(nearest)), write_number(float(kept))])
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


def make_tuning(diagnostics: BalanceDiagnostics) -> Section | None:
    """Balance against the number of matches and against the caliper."""
    figures = []
    for panel in plot_tuning(diagnostics):
        by_caliper = "caliper" in panel.title
        calipers = diagnostics.by_caliper["caliper"]
        note = (
            f"From a caliper of {write_number(float(calipers.min()))} on the left to "
            f"{write_number(float(calipers.max()))} on the right."
        )
        title = "Caliper" if by_caliper else "Number of matches"
        figures.append(
            frame_figure(render_panel(panel), write_note(note if by_caliper else None), title=title)
        )
    if not figures:
        return None
    return Section(
        "tuning",
        "Other settings",
        "Balance with fewer matches for each anchor, or with a caliper that drops distant ones. "
        "Differences are between labels in z within environments, in standard deviations. A "
        "caliper that costs many matches and gains no balance is not worth it.",
        element("div", *figures, class_="columns"),
    )


def make_methods(methods: pd.DataFrame) -> Section:
    """Matching, overlap weights and entropy balancing beside each other.

    Parameters
    ----------
    methods : DataFrame
        A row for each method; columns method, effective_sample_size, effective_share,
        largest_weight, worst_smd_before, worst_smd_after, mean_smd_after, information_before,
        information_after.
    """
    rows = [
        [
            row["method"],
            f"{row['effective_sample_size']:,.0f}" if row["effective_sample_size"] >= 0 else "–",
            write_share(float(row["effective_share"])),
            *(write_number(float(row[name])) for name in _METHOD_NUMBERS),
        ]
        for _, row in methods.iterrows()
    ]
    columns = ["method", "effective sample size", "share of examples"]
    table = list_numbers(columns + list(_METHOD_NUMBERS.values()), rows)
    pictures = join(frame_figure(render_panel(panel)) for panel in plot_methods(methods))
    return Section(
        "methods",
        "Methods compared",
        "Each method weights the same examples so that the labels agree in the covariates. A good "
        "one leaves small differences and keeps a large effective sample size.",
        join([element("div", pictures, class_="columns"), frame_figure(table)]),
    )


_METHOD_NUMBERS = {
    "largest_weight": "largest weight",
    "worst_smd_before": "worst SMD before",
    "worst_smd_after": "after",
    "mean_smd_after": "mean SMD after",
    "information_before": "information before, nats",
    "information_after": "after",
}
