"""The colours of page and pictures: one for before, one for after, and quiet ones for the rest."""

from __future__ import annotations

from collections.abc import Mapping

LIGHT: Mapping[str, str] = {
    "paper": "#fbfaf7",
    "card": "#ffffff",
    "ink": "#1d2126",
    "soft": "#5b636d",
    "faint": "#8b929b",
    "rule": "#e4e1d9",
    "grid": "#eceae4",
    "before": "#c2701c",
    "after": "#0b7a75",
    "third": "#5a4fb0",
    "good": "#0b7a75",
    "fair": "#9a6a00",
    "poor": "#b3372b",
    "heat": "11 122 117",
    "heat-before": "194 112 28",
    "shadow": "0 1px 2px rgb(30 30 20 / .05), 0 6px 24px rgb(30 30 20 / .05)",
}
DARK: Mapping[str, str] = {
    "paper": "#14171b",
    "card": "#1b1f24",
    "ink": "#e9e7e2",
    "soft": "#a7adb5",
    "faint": "#79818b",
    "rule": "#2d333a",
    "grid": "#262b31",
    "before": "#e39a4f",
    "after": "#4fc3b8",
    "third": "#a99ef0",
    "good": "#4fc3b8",
    "fair": "#e0b04a",
    "poor": "#f08273",
    "heat": "79 195 184",
    "heat-before": "227 154 79",
    "shadow": "none",
}


def write_theme() -> str:
    """The colours as CSS variables: the system's choice, the reader's, and paper when printed."""
    light, dark = _declare(LIGHT, "light"), _declare(DARK, "dark")
    return (
        f":root{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}"
    )


def _declare(colors: Mapping[str, str], scheme: str) -> str:
    variables = ";".join(f"--{name}:{value}" for name, value in colors.items())
    return f"color-scheme:{scheme};{variables}"
