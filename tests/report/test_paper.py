"""Pictures in files: the same definitions, and no name can break a file."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from equipoise.report.figures import plot_pairs
from equipoise.report.paper import clean, draw_figure, save_figure
from equipoise.report.pictures import Heat

HOSTILE = ["$x$", "a\\b\n|c|", "<script>&", "half \udc80", "\x00\x07", "[/red]", "%\\input{x}", ""]


def draw_hostile():
    rows = plot_pairs(
        HOSTILE, [1.0] * 8, [math.nan] * 8, title="t", x_name="$\\frac", names=("$b", "<a>")
    )
    heat = Heat("$", np.full((8, 8), math.nan), tuple(HOSTILE), tuple(HOSTILE), x_name="\\%$")
    return draw_figure([rows, heat], title="$_")


@pytest.mark.parametrize("ending", ["svg", "pdf", "png"])
def test_no_name_breaks_a_file(tmp_path, ending):
    path = tmp_path / f"x.{ending}"
    save_figure(draw_hostile(), path)
    assert path.stat().st_size > 1000
    if ending == "svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")


def test_the_same_figure_gives_the_same_file(tmp_path):
    for name in ("a.pdf", "b.pdf"):
        save_figure(draw_hostile(), tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()


def test_names_become_one_line_of_plain_text():
    assert clean("a\n\tb") == "a b"
    assert clean("cost in $") == r"cost in \$"
    assert "\udc80" not in clean("half \udc80")


def test_a_row_is_drawn_at_its_values():
    figure = draw_figure([plot_pairs(["z1"], [1.0], [0.1], title="t", x_name="SD")])
    (axes,) = figure.axes
    drawn = [line.get_xdata()[0] for line in axes.lines]
    assert drawn == [1.0, 0.1]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["z1"]
