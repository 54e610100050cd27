"""From a fitted balancer, a run, or both, to one file: everything in it, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from equipoise import __version__
from equipoise.balancer import CausalBalancer
from equipoise.diagnosis import BalanceDiagnostics
from equipoise.files import write_whole
from equipoise.progress import track
from equipoise.report.balance_sections import (
    draw_verdict,
    make_cross,
    make_love,
    make_methods,
    make_overlap,
    make_tuning,
    make_use,
    make_varying,
)
from equipoise.report.html import Html, Section, element, join, write_theme
from equipoise.report.model_sections import (
    make_gallery,
    make_identifiability,
    make_latent,
    make_settings_section,
)
from equipoise.report.run import RunStory, draw_outcome, make_confusions, make_curves
from equipoise.report.study import Study, make_study

# No address but the page's own data: whatever gets into the page, it cannot call anyone.
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


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
    texts: Sequence[str] | None = None,
    methods: pd.DataFrame | None = None,
    title: str | None = None,
    seed: int = 0,
    verbose: bool = False,
) -> Path:
    """Write one self-contained HTML page about a fitted balancer, a run, or a run with its own.

    Parameters
    ----------
    path : str or Path
        The file, by custom ending in .html; it needs no other file and no network.
    balancer : CausalBalancer, optional
    X, y, environments : array-like, optional
        The examples it was fitted on, in that order, or further ones; in place of X also what
        `balancer.examine` gave.
    known : mapping or DataFrame, optional
        Covariates you know of the examples, by name, one value each; for display only.
    feature_names : sequence of str, optional
        Of the columns of a table, where X does not name them.
    diagnostics : BalanceDiagnostics, optional
        What `balancer.diagnose` found of these examples, if that was asked already.
    run : RunStory, optional
        What `tell_run` read of a run's directory.
    texts : sequence of str, optional
        A text for each example, shown in the gallery in place of its features.
    methods : DataFrame, optional
        Methods to compare, a row each; see `make_methods`.
    title : str, optional
        By default the name of the run or of the data.
    seed : int
        Of the examples that are drawn to be shown.

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
            study = make_study(
                balancer, found, diagnostics, feature_names=feature_names, texts=texts
            )
            verdicts.append(draw_verdict(diagnostics))
        tracker.reach(1, "drawing")
        if run is not None:
            verdicts.append(draw_outcome(run))
            sections += [make_curves(run), make_confusions(run)]
        if study is not None:
            sections += _make_balance(study, methods, seed)
        sections.append(make_settings_section(study, run))
        tracker.reach(2, "writing")
        shown = [section for section in sections if section is not None]
        page = render_page(
            title or _choose_title(study, run), _tell_size(study, run), verdicts, shown
        )
        with write_whole(path) as temporary:
            # A name may hold half a character, as broken file names do: it becomes a number.
            temporary.write_bytes(page.encode("utf-8", errors="xmlcharrefreplace"))
        tracker.finish(str(path))
    return path


def _make_balance(study: Study, methods: pd.DataFrame | None, seed: int) -> list[Section | None]:
    diagnostics = study.diagnostics
    return [
        make_varying(diagnostics),
        make_love(diagnostics),
        make_cross(diagnostics),
        None if methods is None else make_methods(methods),
        make_overlap(diagnostics),
        make_gallery(study, seed),
        make_latent(study, seed),
        make_identifiability(study),
        make_use(diagnostics),
        make_tuning(diagnostics),
    ]


def _choose_title(study: Study | None, run: RunStory | None) -> str:
    if run is not None:
        return (
            f"{run.settings.algorithm} on {run.settings.dataset}, {run.settings.sampling} batches"
        )
    return "What balancing does to these data"


def _tell_size(study: Study | None, run: RunStory | None) -> str:
    if study is not None:
        m, n = len(study.label_names), len(study.environment_names)
        return f"{len(study.labels):,} examples · {m} labels · {n} environments"
    assert run is not None
    described = run.description
    m, n = len(described.label_names), len(described.environment_names)
    return f"{m} labels · {n} environments"


def render_page(
    title: str, meta: str, verdicts: Sequence[Html], sections: Sequence[Section]
) -> str:
    """The whole document: head, title, verdicts, contents, sections."""
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"equipoise {__version__}"),
        element("title", title),
        # An empty icon, or the browser asks for one.
        Html('<link rel="icon" href="data:,">'),
        element("style", Html(write_theme() + _read_asset("page.css"))),
    ]
    links = [
        element("li", element("a", section.title, href=f"#{section.name}")) for section in sections
    ]
    body = element(
        "div",
        element(
            "header",
            element(
                "div",
                element("span", element("b", "equipoise"), " balance report"),
                element("button", "Dark", type="button", class_="theme", hidden=True),
                class_="eyebrow",
            ),
            element("h1", title),
            element("p", meta, class_="meta"),
        ),
        *verdicts,
        element("nav", element("ul", join(links), class_="contents"), aria_label="Contents"),
        element("main", join(section.render() for section in sections)),
        element(
            "footer",
            f"Made by equipoise {__version__}. This page is one file and asks nothing of the "
            "network.",
        ),
        class_="page",
    )
    document = element(
        "html",
        element("head", join(head)),
        element("body", body, element("script", Html(_read_asset("page.js")))),
        lang="en",
    )
    return "<!doctype html>\n" + document + "\n"


def _read_asset(name: str) -> str:
    return files("equipoise.report").joinpath("assets", name).read_text(encoding="utf-8")
