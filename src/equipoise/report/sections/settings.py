"""How it was made: settings, seeds, and how to make it again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise import __version__
from equipoise.report.html import Html, element, join
from equipoise.report.run_story import RunStory
from equipoise.report.sections.section import Section, frame_figure, list_numbers
from equipoise.report.study import Study


def make_settings_section(study: Study | None, story: RunStory | None) -> Section:
    """The run's settings and command, the balancer's parameters and call."""
    parts = []
    if story is not None:
        parts.append(element("h3", "The command"))
        parts.append(element("pre", story.command))
        parts.append(frame_figure(_list_settings(story.settings.to_json()), title="The run"))
    if study is not None:
        parts.append(element("h3", "The balancer"))
        parts.append(element("pre", repr(study.balancer) + ".fit(X, y, environments)"))
        parts.append(frame_figure(_list_balancer(study), title="Its parameters"))
    return Section(
        "settings",
        "How it was made",
        "The same settings, seeds and data give the same result, bit for bit, on the same "
        f"machine. Made by equipoise {__version__}.",
        join(parts),
    )


def _list_settings(settings: Mapping[str, Any]) -> Html:
    rows = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            rows += [[f"{name}.{key}", _write(each)] for key, each in value.items()]
        else:
            rows.append([name, _write(value)])
    return list_numbers(["setting", "value"], rows, n_text=2)


def _list_balancer(study: Study) -> Html:
    balancer = study.balancer
    chosen = {
        "n_matches": balancer.n_matches_,
        "latent_dim": balancer.latent_model_.settings.latent_dim,
        "score": balancer.score_,
        "hidden": balancer.latent_model_.settings.hidden,
        "prior": balancer.latent_model_.settings.prior,
    }
    rows = []
    for name, value in balancer.get_params().items():
        used = chosen.get(name, value)
        rows.append([name, _write(used) + _tell_choice(value, used)])
    return list_numbers(["parameter", "value"], rows, n_text=2)


def _tell_choice(given: Any, used: Any) -> str:
    if used == given:
        return ""
    return " (chosen, as none was given)" if given is None else f" (chosen by {given!r})"


def _write(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return str(value)
