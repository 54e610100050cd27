"""From a fitted balancer, a run, or both, to the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from equipoise.balancer import CausalBalancer
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.files import write_whole
from equipoise.progress import track
from equipoise.report.html import Html
from equipoise.report.page import render_page
from equipoise.report.run_story import RunStory
from equipoise.report.sections.cross import make_cross
from equipoise.report.sections.gallery import make_gallery
from equipoise.report.sections.identifiability import make_identifiability
from equipoise.report.sections.latent import make_latent
from equipoise.report.sections.love import make_love
from equipoise.report.sections.overlap import make_overlap
from equipoise.report.sections.run import draw_outcome, make_confusions, make_curves
from equipoise.report.sections.section import Section
from equipoise.report.sections.settings import make_settings_section
from equipoise.report.sections.tuning import make_tuning
from equipoise.report.sections.use import make_use
from equipoise.report.sections.verdict import draw_verdict
from equipoise.report.study import Study, make_study


def write_report(
    path: str | Path,
    balancer: CausalBalancer | None = None,
    X: Any = None,
    y: ArrayLike | None = None,
    environments: ArrayLike | None = None,
    *,
    known: Mapping[str, Any] | pd.DataFrame | None = None,
    feature_names: Sequence[str] | None = None,
    diagnostics: BalanceDiagnostics | None = None,
    run: RunStory | None = None,
    title: str | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Path:
    """Write one self-contained HTML page about a fitted balancer, a run, or a run with its own.

    Parameters
    ----------
    path : the file, by custom ending in .html; it needs no other file and no network
    balancer, X, y, environments : the balancer and the examples it was fitted on, in that order;
        in place of X also what `balancer.examine` gave
    known : covariates you know of the examples, by name, one value each; for display only
    feature_names : of the columns of a table, where X does not name them
    diagnostics : what `balancer.diagnose` found of these examples, if that was asked already
    run : what `tell_run` read of a run's directory
    title : by default the name of the run or of the data
    seed : of the examples that are drawn to be shown

    >>> import tempfile
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> site, y = rng.integers(2, size=300), rng.integers(2, size=300)
    >>> X = np.stack([y + rng.normal(size=300), rng.normal(size=300)], axis=1)
    >>> balancer = CausalBalancer(max_steps=20, random_state=0).fit(X, y, site)
    >>> page = write_report(Path(tempfile.mkdtemp()) / "report.html", balancer, X, y, site)
    >>> page.read_text().startswith("<!doctype html>")
    True
    """
    if balancer is None and run is None:
        raise ValueError("there is nothing to report on: give a fitted balancer, a run, or both")
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; name a file for the page, as {path}/report.html")
    verdicts: list[Html] = []
    sections: list[Section | None] = []
    study: Study | None = None
    with track(3, "report", enabled=verbose) as tracker:
        if balancer is not None:
            tracker.reach(0, "diagnosing")
            found = balancer.examine(X, y, environments)
            if diagnostics is None:
                diagnostics = balancer.diagnose(found, known=known)
            study = make_study(balancer, found, diagnostics, feature_names=feature_names)
            verdicts.append(draw_verdict(diagnostics))
        if run is not None:
            verdicts.append(draw_outcome(run))
            sections += [make_curves(run), make_confusions(run)]
        tracker.reach(1, "drawing")
        if study is not None and diagnostics is not None:
            sections += _make_balance(study, diagnostics, seed)
        sections.append(make_settings_section(study, run))
        tracker.reach(2, "writing")
        heading = title or _choose_title(study, run)
        page = render_page(
            heading,
            _tell_size(study, run),
            verdicts,
            [section for section in sections if section is not None],
        )
        with write_whole(path) as temporary:
            # A name may hold half a character, as broken file names do: it becomes a number.
            temporary.write_bytes(page.encode("utf-8", errors="xmlcharrefreplace"))
        tracker.finish(str(path))
    return path


def _make_balance(study: Study, diagnostics: BalanceDiagnostics, seed: int) -> list[Section | None]:
    return [
        make_love(diagnostics),
        make_cross(diagnostics),
        make_overlap(diagnostics),
        None if study.source is None else make_gallery(study, seed),
        None if study.source is None else make_latent(study, seed),
        make_identifiability(study, diagnostics),
        make_use(diagnostics),
        make_tuning(diagnostics),
    ]


def _choose_title(study: Study | None, run: RunStory | None) -> str:
    if run is not None:
        return (
            f"{run.settings.algorithm} on {run.settings.dataset}, {run.settings.sampling} batches"
        )
    return "What was spurious, and what is left"


def _tell_size(study: Study | None, run: RunStory | None) -> str:
    if study is not None:
        m, n = len(study.label_names), len(study.environment_names)
        return f"{len(study.labels):,} examples · {m} labels · {n} environments"
    assert run is not None
    described = run.description
    m, n = len(described.label_names), len(described.environment_names)
    return f"{m} labels · {n} environments"
