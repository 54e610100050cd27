"""One static picture by name, of a run or a balancer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from matplotlib.figure import Figure

from equipoise.balance.groups import POOLED
from equipoise.choices import check_choice
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.report.anchors import choose_anchors, show_anchors
from equipoise.report.charts.lines import Series
from equipoise.report.figures.confusions import draw_confusions
from equipoise.report.figures.curves import draw_curves, draw_tuning
from equipoise.report.figures.gallery import draw_gallery
from equipoise.report.figures.latent import draw_decoded, draw_effects, draw_traversals
from equipoise.report.figures.love import draw_love
from equipoise.report.figures.overlap import draw_overlap
from equipoise.report.figures.reuse import draw_reuse
from equipoise.report.figures.tables import draw_tables
from equipoise.report.latent_views import (
    FeatureEffects,
    decode_counterfactuals,
    measure_effects,
    traverse_latent,
)
from equipoise.report.opening import Target
from equipoise.report.pictures import is_picture
from equipoise.report.run_story import RunStory
from equipoise.report.sections.cross import arrange_cross
from equipoise.report.sections.latent import N_SAMPLED, choose_features
from equipoise.report.sections.love import choose_rows
from equipoise.report.sections.overlap import choose_pairs
from equipoise.report.sections.run import list_marks, list_series
from equipoise.report.sections.tuning import trace_settings
from equipoise.report.sections.use import name_bins
from equipoise.report.study import Study, make_study

N_EXAMPLES, MOST_LABELS, MOST_PAIRS = 10, 12, 9


@dataclass(frozen=True)
class Subject:
    """A target as plots ask for it; what it lacks is a ValueError that says so."""

    target: Target
    environment: str | None
    seed: int

    @cached_property
    def _examined(self) -> tuple[Study, BalanceDiagnostics]:
        balancer = self.target.balancer
        if balancer is None:
            raise ValueError("; ".join(self.target.missing) or "this run has no balancer")
        target = self.target
        found = balancer.examine(target.examples, target.labels, target.environments)
        diagnostics = balancer.diagnose(found, with_gain=False)
        return make_study(balancer, found, diagnostics), diagnostics

    @property
    def diagnostics(self) -> BalanceDiagnostics:
        return self._examined[1]

    @property
    def study(self) -> Study:
        """The study, with its examples at hand."""
        study = self._examined[0]
        if study.source is None:
            raise ValueError("; ".join(self.target.missing))
        return study

    @property
    def run(self) -> RunStory:
        if self.target.run is None:
            raise ValueError(f"{self.target.folder} is not a run: there are no records to plot")
        return self.target.run

    @property
    def generator(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0x9107])

    def choose_place(self, *, pooled: bool) -> str:
        """The environment asked for, else all together or the first."""
        names = self.diagnostics.environment_names
        if self.environment is None:
            return POOLED if pooled else names[0]
        return check_choice("environment", self.environment, names)


def _plot_love(subject: Subject) -> Figure:
    """Love plot: how far labels differ in every covariate, before and after"""
    worst = subject.diagnostics.worst
    rows = choose_rows(worst[worst["environment"] == subject.choose_place(pooled=True)])
    return draw_love(rows, threshold=THRESHOLD)


def _plot_tables(subject: Subject) -> Figure:
    """label × covariate, of random and of balanced batches"""
    cross = subject.diagnostics.cross
    cross = cross[cross["covariate"] == cross["covariate"].iloc[0]]
    place = subject.choose_place(pooled=True)
    cross = cross[cross["environment"] == place]
    labels, values, before = arrange_cross(cross, "before")
    _, _, after = arrange_cross(cross, "after")
    name = str(cross["covariate"].iloc[0])
    return draw_tables(before, after, label_names=labels, covariate_name=name, value_names=values)


def _plot_overlap(subject: Subject) -> Figure:
    """scores of two labels at a time, of the pairs that overlapped least"""
    place = subject.choose_place(pooled=False)
    return draw_overlap(choose_pairs(subject.diagnostics, place, MOST_PAIRS))


def _plot_gallery(subject: Subject) -> Figure:
    """anchors with their nearest match of each label"""
    study = _take_pictures(subject, "gallery")
    rows = choose_anchors(study.labels, study.environments, N_EXAMPLES, subject.generator)
    labels = study.label_names[:MOST_LABELS]
    anchors = show_anchors(study.matches, rows, n_labels=len(study.label_names), per_label=1)
    anchors = tuple(
        replace(anchor, matches=tuple(m for m in anchor.matches if m.label < MOST_LABELS))
        for anchor in anchors
    )
    own = [study.label_names[study.labels[row]] for row in rows]
    return draw_gallery(anchors, study.examples, labels, own)


def _plot_counterfactuals(subject: Subject) -> Figure:
    """examples decoded with z kept and y changed; of a table, what y and z do to its features"""
    study = subject.study
    if not is_picture(study.input_shape):
        return _plot_effects(subject)
    rows = choose_anchors(study.labels, study.environments, N_EXAMPLES, subject.generator)
    found = decode_counterfactuals(study.balancer.latent_model_, *study.take(rows))
    found = replace(found, decoded=found.decoded[:, :MOST_LABELS])
    own = [study.label_names[study.labels[row]] for row in rows]
    return draw_decoded(found, own, study.label_names[:MOST_LABELS])


def _plot_effects(subject: Subject) -> Figure:
    study = subject.study
    rows = study.draw_rows(N_SAMPLED, subject.generator)
    effects = measure_effects(study.balancer.latent_model_, *study.take(rows))
    shown = choose_features(effects)
    cut = FeatureEffects(effects.by_label[shown][:, :MOST_LABELS], effects.by_z[shown])
    names = [study.feature_names[i] for i in shown]
    return draw_effects(cut, names, study.label_names[:MOST_LABELS])


def _plot_traversals(subject: Subject) -> Figure:
    """pictures as one z moves at a time"""
    study = _take_pictures(subject, "traversals")
    rows = study.draw_rows(N_SAMPLED, subject.generator)
    found = traverse_latent(study.balancer.latent_model_, *study.take(rows))
    return draw_traversals(found, study.examples.fetch(rows[:N_EXAMPLES]))


def _plot_reuse(subject: Subject) -> Figure:
    """how many examples balanced batches show how often"""
    return draw_reuse(*name_bins(subject.diagnostics.reuse))


def _plot_tuning(subject: Subject) -> Figure:
    """balance against the number of matches and against the caliper"""
    panels: list[tuple[str, list[Series]]] = trace_settings(subject.diagnostics)
    if not panels:
        raise ValueError("there is nothing to compare: every match is at the same distance")
    return draw_tuning(panels, THRESHOLD)


def _plot_curves(subject: Subject) -> Figure:
    """of a run: accuracies over training, and the checkpoints chosen"""
    run = subject.run
    return draw_curves(list_series(run), list_marks(run), x_name="step", y_name="accuracy")


def _plot_confusions(subject: Subject) -> Figure:
    """of a run: which labels are taken for which"""
    run = subject.run
    if not run.confusions:
        raise ValueError("; ".join(subject.target.missing) or "this run has no weights yet")
    return draw_confusions(run.confusions, run.description.label_names)


def _take_pictures(subject: Subject, kind: str) -> Study:
    study = subject.study
    if not is_picture(study.input_shape):
        raise ValueError(
            f"{kind} shows pictures, but these examples are rows of a table: plot counterfactuals, "
            "or see the report"
        )
    return study


PLOTS: dict[str, Callable[[Subject], Figure]] = {
    "love": _plot_love,
    "tables": _plot_tables,
    "overlap": _plot_overlap,
    "gallery": _plot_gallery,
    "counterfactuals": _plot_counterfactuals,
    "traversals": _plot_traversals,
    "reuse": _plot_reuse,
    "tuning": _plot_tuning,
    "curves": _plot_curves,
    "confusions": _plot_confusions,
}


def draw_plot(
    kind: str, target: Target, *, environment: str | None = None, seed: int = 0
) -> Figure:
    """The picture of that name; `seed` is of the examples that are drawn to be shown."""
    return PLOTS[check_choice("plot", kind, PLOTS)](Subject(target, environment, seed))
