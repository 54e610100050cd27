"""Pictures on the page say the numbers they were given."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from equipoise.report.figures import plot_curves, plot_pair, plot_pairs, plot_reuse
from equipoise.report.pictures import Axis, Heat, Panel, Points, make_axis
from equipoise.report.svg import render_heat, render_panel


def draw_love(**rows):
    before, after = zip(*rows.values(), strict=True)
    panel = plot_pairs(
        list(rows), before, after, title="Love plot", x_name="SD", threshold=0.1, names=("b", "a")
    )
    return render_panel(panel)


def find(pattern, drawn):
    return [float(x) for x in re.findall(pattern, drawn)]


def test_two_values_of_a_row_are_placed_by_their_size():
    drawn = draw_love(**{"z1": (1.0, 0.0), "a<b": (0.5, 0.2)})
    rings = find(r'class="ring before" cx="([\d.]+)%"', drawn)
    dots = find(r'class="dot after" cx="([\d.]+)%"', drawn)
    assert dots[0] == pytest.approx(1.5, abs=0.01)
    assert rings[0] - 1.5 == pytest.approx(2 * (rings[1] - 1.5), abs=0.05)
    assert "a&lt;b: 0.5 b, 0.2 a" in drawn


def test_what_is_not_known_is_not_drawn():
    drawn = draw_love(z1=(1.0, math.nan), z2=(math.nan, math.nan))
    assert drawn.count('class="ring before" cx') == 1
    assert 'class="dot after" cx' not in drawn
    assert "nan" not in drawn.lower()
    assert "z1: 1 b, – a" in drawn


def test_error_bars_reach_as_far_as_the_error():
    axis = Axis(0.0, 100.0)
    points = Points("after", [50.0], [0.0], x_error=[10.0])
    drawn = render_panel(Panel("t", (points,), axis, Axis(-0.5, 0.5), rows=("even",)))
    ((left, right),) = re.findall(r'class="error after" x1="([\d.]+)%" x2="([\d.]+)%"', drawn)
    assert float(right) - float(left) == pytest.approx(20 * 0.97, abs=0.01)


def test_a_curve_has_a_gap_where_there_is_no_value():
    marks = plot_curves([1, 2, 3, 4], [("accuracy", "after", [0.5, math.nan, 0.6, 0.7])])
    chosen = Points("after", [4], [0.7], ring=True, told=["chosen by balanced: step 4"])
    axes = make_axis([1, 4]), make_axis([], low=0.0, high=1.0)
    drawn = render_panel(Panel("Curves", (*marks, chosen), *axes))
    (path,) = re.findall(r'class="curve after" d="([^"]+)"', drawn)
    assert [path.count(letter) for letter in "ML"] == [2, 1]
    assert path.startswith("M0.0 500.0")
    assert drawn.count('class="dot after"') == 3
    assert "chosen by balanced: step 4" in drawn


def draw_reuse(names, counts):
    edges = [tuple(map(float, name.split("–"))) for name in names]
    table = pd.DataFrame(edges, columns=["at_least", "below"]).assign(examples=counts)
    return render_panel(plot_reuse(table))


def test_bars_are_as_high_as_their_shares():
    drawn = draw_reuse(["1–2", "2–4"], [3, 1])
    heights = find(r'class="bar after"[^>]* height="([\d.]+)"', drawn)
    assert heights[0] == pytest.approx(3 * heights[1], rel=1e-3)
    assert "1–2: 3 (75\u202f%)" in drawn


def test_names_of_many_bars_do_not_run_into_each_other():
    names = [f"{2**i}–{2 ** (i + 1)}" for i in range(13)]
    drawn = draw_reuse(names, [1] * 13)
    written = re.findall(r'text-anchor="middle">([^<]*)<', drawn)
    assert written[0] == "1–2"
    assert 2 <= len(written) <= 4
    assert all(f"{name}: 1" in drawn for name in names)  # each bar still says what it is
    few = re.findall(r'text-anchor="middle">([^<]*)<', draw_reuse(names[:4], [1] * 4))
    assert few == names[:4]


def test_overlap_draws_the_first_label_above_and_the_second_below():
    one, other = [1.0, 0.0], [0.0, 1.0]
    table = {"first_before": one, "second_before": other, "first_after": one, "second_after": other}
    drawn = render_panel(plot_pair("cat", "dog", pd.DataFrame(table)))
    paths = re.findall(r'class="area (\w+)(?: fill)?" d="([^"]+)"', drawn)
    assert [kind for kind, _ in paths] == ["after", "after", "before", "before"]
    above, below = paths[2][1], paths[3][1]
    assert "L0.0 0.0" in above
    assert "1000.0 1000.0" not in above
    assert "L500.0 1000.0" in below


def test_a_heat_table_tints_by_size_and_tells_the_sign_apart():
    cells = np.array([[0.5, -1.0], [math.nan, 0.0]])
    drawn = render_heat(Heat("effects", cells, ("a", "b"), ("x", "<y>"), write=str))
    assert re.findall(r"--t:([\d.]+)", drawn) == ["0.500", "1.000", "0.000", "0.000"]
    assert drawn.count("negative") == 1
    assert "&lt;y&gt;" in drawn
