"""The verdict, before anything else, and the numbers it rests on."""

from __future__ import annotations

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import write_number, write_share
from equipoise.report.html import Html, element, join

# The verdict's level -> the colour it is shown in.
COLORS = {
    "nothing to gain": "good",
    "removed": "good",
    "reduced": "fair",
    "not known": "fair",
    "left": "poor",
}


def draw_verdict(diagnostics: BalanceDiagnostics) -> Html:
    """A sentence, what it rests on, what to do, and four figures."""
    verdict = diagnostics.verdict
    return element(
        "section",
        element("p", verdict.level, class_="level"),
        element("p", verdict.headline, class_="headline"),
        _list(verdict.findings),
        element("h3", "What to do") if verdict.advice else None,
        _list(verdict.advice),
        element("dl", join(_list_figures(diagnostics)), class_="figures"),
        class_=f"card verdict level-{COLORS.get(verdict.level, 'fair')}",
        id="verdict",
    )


def _list(sentences: tuple[str, ...]) -> Html | None:
    if not sentences:
        return None
    return element("ul", join(element("li", sentence) for sentence in sentences))


def _list_figures(diagnostics: BalanceDiagnostics) -> list[Html]:
    z = diagnostics.worst[diagnostics.worst["kind"] == "z"]
    z = z[z["environment"] != POOLED]
    information = diagnostics.information
    told = information[(information["kind"] == "z") & (information["environment"] == POOLED)]
    size = diagnostics.use["effective_size"].sum() / diagnostics.n_examples
    figures = [
        _compare("worst difference of two labels in z", z, "smd", "SD; below 0.1 is small"),
    ]
    if len(told):
        row = told.iloc[0]
        before, after = max(row["before"], 0.0), max(row["after"], 0.0)
        note = f"nats, of {write_number(row['label_entropy'])} that the label has"
        figures.append(_move("what z tells about the label", before, after, note))
    figures.append(
        _figure(
            "effective sample size",
            write_share(float(size)),
            f"of {diagnostics.n_examples:,} examples",
        )
    )
    if diagnostics.gain is not None:
        gain = diagnostics.gain
        value = join(
            [
                element("span", write_share(gain.plain_balanced), class_="from"),
                element("span", "→", class_="arrow"),
                element("span", write_share(gain.balanced), class_="to"),
            ]
        )
        note = "a small classifier, tested where nothing is spurious"
        figures.append(_figure("accuracy to gain", value, note))
    return figures


def _compare(name: str, table: pd.DataFrame, column: str, note: str) -> Html:
    before, after = table[f"{column}_before"].max(), table[f"{column}_after"].max()
    return _move(name, float(before), float(after), note)


def _move(name: str, before: float, after: float, note: str) -> Html:
    value = join(
        [
            element("span", write_number(round(before, 3)), class_="from"),
            element("span", "→", class_="arrow"),
            element("span", write_number(round(after, 3)), class_="to"),
        ]
    )
    return _figure(name, value, note)


def _figure(name: str, value: Html | str, note: str) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", note)))
