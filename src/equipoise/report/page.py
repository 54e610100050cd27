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
from equipoise.report import balance_sections, model_sections
from equipoise.report.html import Html, Section, element, write_theme
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
        The examples fitted, in that order, or further ones; X may be what `examine` gave.
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
    name, size = "What balancing does to these data", ""
    with track(3, "report", enabled=verbose) as tracker:
        if balancer is not None:
            tracker.reach(0, "diagnosing")
            found = balancer.examine(X, y, environments)
            if diagnostics is None:
                diagnostics = balancer.diagnose(found, known=known)
            study = make_study(
                balancer, found, diagnostics, feature_names=feature_names, texts=texts
            )
            verdicts.append(balance_sections.draw_verdict(diagnostics))
        tracker.reach(1, "drawing")
        if run is not None:
            verdicts.append(draw_outcome(run))
            sections += [make_curves(run), make_confusions(run)]
            settings = run.settings
            name = f"{settings.algorithm} on {settings.dataset}, {settings.sampling} batches"
        if study is not None:
            size = f"{len(study.found.labels):,} examples · "
            sections += [
                balance_sections.make_varying(study.diagnostics),
                balance_sections.make_love(study.diagnostics),
                balance_sections.make_cross(study.diagnostics),
                None if methods is None else balance_sections.make_methods(methods),
                balance_sections.make_overlap(study.diagnostics),
                model_sections.make_gallery(study, seed),
                model_sections.make_latent(study, seed),
                model_sections.make_identifiability(study),
                balance_sections.make_use(study.diagnostics),
                balance_sections.make_tuning(study.diagnostics),
            ]
        sections.append(model_sections.make_settings_section(study, run))
        tracker.reach(2, "writing")
        names: Any = study or (run and run.description)
        size += f"{len(names.label_names)} labels · {len(names.environment_names)} environments"
        shown = [section for section in sections if section is not None]
        page = render_page(title or name, size, verdicts, shown)
        with write_whole(path) as temporary:
            # A name may hold half a character, as broken file names do: it becomes a number.
            temporary.write_bytes(page.encode("utf-8", errors="xmlcharrefreplace"))
        tracker.finish(str(path))
    return path


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
    links = [element("li", element("a", each.title, href=f"#{each.name}")) for each in sections]
    brand = element("span", element("b", "equipoise"), " balance report")
    theme = element("button", "Dark", type="button", class_="theme", hidden=True)
    made = (
        f"Made by equipoise {__version__}. This page is one file and asks nothing of the network."
    )
    body = element(
        "div",
        element(
            "header",
            element("div", brand, theme, class_="eyebrow"),
            element("h1", title),
            element("p", meta, class_="meta"),
        ),
        *verdicts,
        element("nav", element("ul", *links, class_="contents"), aria_label="Contents"),
        element("main", *(section.render() for section in sections)),
        element("footer", made),
        class_="page",
    )
    script = element("script", Html(_read_asset("page.js")))
    document = element("html", element("head", *head), element("body", body, script), lang="en")
    return f"<!doctype html>\n{document}\n"


def _read_asset(name: str) -> str:
    return files("equipoise.report").joinpath("assets", name).read_text(encoding="utf-8")
