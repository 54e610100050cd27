"""Figures into files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from equipoise.choices import check_choice
from equipoise.files import write_whole

FORMATS = ("png", "pdf", "svg")


def check_format(path: str | Path) -> str:
    """The format that a file's ending names; another one is a ValueError."""
    return check_choice("kind of picture", Path(path).suffix[1:].lower(), FORMATS)


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure whole, in the format that the file's ending names: png, pdf or svg.

    No date is written, so that the same figure gives the same file.
    """
    kind = check_format(path)
    dates = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with write_whole(path) as temporary:
        figure.savefig(
            temporary, format=kind, dpi=150, bbox_inches="tight", metadata=dates.get(kind)
        )
