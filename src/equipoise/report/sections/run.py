"""A training run: its curves, the checkpoints chosen, where it errs."""

from __future__ import annotations

import math
from collections.abc import Callable

from equipoise.benchmark import Record
from equipoise.benchmark.trained_run import PREFERRED
from equipoise.report.charts.frame import write_share
from equipoise.report.charts.heat import draw_heat
from equipoise.report.charts.lines import Mark, Series, draw_lines
from equipoise.report.html import Html, element, join
from equipoise.report.run_story import Confusion, RunStory
from equipoise.report.sections.section import Section, frame_figure, list_numbers

MOST_LABELS = 20

# Name on the page, class there, and what it shows of a record.
CURVES: tuple[tuple[str, str, Callable[[Record], float | None]], ...] = (
    ("train-domain validation", "before", lambda record: record.validation_accuracy),
    ("balanced validation", "after", lambda record: record.balanced_validation_accuracy),
    ("out of domain", "third", lambda record: record.ood_accuracy),
)
SELECTION_KINDS = {"train-domain": "before", "balanced": "after"}


def draw_outcome(story: RunStory) -> Html:
    """The run in a sentence, and the accuracies of the checkpoint that would be taken."""
    rule, record = _take(story)
    settings = story.settings
    figures = []
    for name, kind, read in CURVES:
        value = read(record)
        if value is not None:
            classes = {"before": "from", "after": "to"}.get(kind)
            number = element("span", write_share(value, 1), class_=classes)
            figures.append(element("div", element("dt", name), element("dd", number)))
    where = "" if settings.test_environment is None else f", tested on {settings.test_environment}"
    return element(
        "section",
        element(
            "p",
            f"{settings.algorithm} with {settings.sampling} batches{where}: step {record.step:,} "
            f"of {settings.steps:,}, {rule}.",
            class_="headline",
        ),
        element("dl", join(figures), class_="figures"),
        class_="card verdict level-run",
        id="outcome",
    )


def _take(story: RunStory) -> tuple[str, Record]:
    """The checkpoint a user would take: by balanced validation where it was kept."""
    for name in (*PREFERRED, *story.selected):
        if name in story.selected:
            return f"chosen by {name} validation", story.selected[name]
    return "the last so far", story.records[-1]


def make_curves(story: RunStory) -> Section:
    """Accuracies over training, and what each selection rule chose."""
    series = list_series(story)
    chart = draw_lines(
        series,
        title="Accuracy over training",
        x_name="step",
        y_range=_choose_range(series),
        marks=list_marks(story),
        write_x=lambda x: f"{x:,.0f}",
        write_y=write_share,
        height=280,
    )
    ends = (
        ""
        if story.finished
        else (f" It has come to step {story.records[-1].step:,} of {story.settings.steps:,}.")
    )
    return Section(
        "curves",
        "Accuracy over training",
        "Train-domain validation looks at held-out examples as they are, balanced validation "
        "weighs them so that nothing is spurious. Rings mark the checkpoint that each rule "
        "chose, at its accuracy out of domain." + ends,
        join(
            [frame_figure(chart), frame_figure(_list_selected(story), title="Chosen checkpoints")]
        ),
    )


def list_series(story: RunStory) -> list[Series]:
    """The curves of a run that has them."""
    steps = [float(record.step) for record in story.records]
    series = []
    for name, kind, read in CURVES:
        values = [read(record) for record in story.records]
        if any(value is not None for value in values):
            heights = [math.nan if value is None else value for value in values]
            series.append(Series(name, kind, steps, heights))
    return series


def list_marks(story: RunStory) -> list[Mark]:
    """The checkpoints chosen, at their accuracy out of domain where there is one."""
    marks = []
    for name, record in story.selected.items():
        height = record.ood_accuracy
        height = record.validation_accuracy if height is None else height
        kind = SELECTION_KINDS.get(name, "soft")
        marks.append(Mark(f"chosen by {name}: step {record.step}", kind, record.step, height))
    return marks


def _choose_range(series: list[Series]) -> tuple[float, float]:
    lowest = min(y for s in series for y in s.y if math.isfinite(y))
    return max(0.0, math.floor(10 * lowest - 0.3) / 10), 1.0


def _list_selected(story: RunStory) -> Html:
    rows = []
    for name, record in story.selected.items():
        accuracies = [read(record) for _, _, read in CURVES]
        cells = ["–" if value is None else write_share(value, 1) for value in accuracies]
        rows.append([element("b", name), f"{record.step:,}", *cells])
    return list_numbers(["selection", "step", *(name for name, _, _ in CURVES)], rows)


def make_confusions(story: RunStory) -> Section | None:
    """Which labels are taken for which, by part of the data."""
    if not story.confusions:
        return None
    names = story.description.label_names
    panels = [frame_figure(_draw_confusion(found, names)) for found in story.confusions]
    return Section(
        "confusions",
        "Where it errs",
        f"Of the examples of each label, the share in percent that is taken for each. The model "
        f"is that of step {story.selected[story.selection or ''].step:,}, chosen by "
        f"{story.selection} validation."
        + (f" The first {MOST_LABELS} labels are shown." if len(names) > MOST_LABELS else ""),
        element("div", join(panels), class_="columns"),
    )


def _draw_confusion(found: Confusion, names: tuple[str, ...]) -> Html:
    caption = f"{found.title}: {write_share(found.accuracy, 1)} right"
    return draw_heat(
        found.shares[:MOST_LABELS, :MOST_LABELS],
        names[:MOST_LABELS],
        names[:MOST_LABELS],
        caption=caption,
        corner="label",
        write=lambda share: "–" if math.isnan(share) else f"{100 * share:.0f}",
        mark_diagonal=True,
    )
