"""The page as one file: everything in it, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from equipoise import __version__
from equipoise.report.html import Html, element, join
from equipoise.report.palette import write_theme
from equipoise.report.sections.section import Section

# No address but the page's own data: whatever gets into the page, it cannot call anyone.
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


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
