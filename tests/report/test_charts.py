"""Charts say the numbers they were given."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.report.charts.bars import draw_bars
from equipoise.report.charts.frame import Scale, find_ticks, write_number, write_share
from equipoise.report.charts.heat import draw_heat
from equipoise.report.charts.lines import Mark, Series, draw_lines
from equipoise.report.charts.love import LoveRow, draw_love
from equipoise.report.charts.overlap import PairOverlap, draw_overlap


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_few_evenly_spread_and_inside(low, width, n_at_most):
    ticks = find_ticks(low, low + width, n_at_most)
    assert len(ticks) <= n_at_most + 1
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[:1], rtol=1e-3)


def test_a_value_outside_stands_at_the_border():
    scale = Scale(0.0, 1.0, left=10.0, right=90.0)
    assert [scale.place(x) for x in (-5.0, 0.0, 0.5, 1.0, 7.0)] == [10.0, 10.0, 50.0, 90.0, 90.0]


@pytest.mark.parametrize(
    ("value", "written"),
    [(-0.25, "−0.25"), (3.14159, "3.14"), (250.4, "250"), (2e-5, "2e−5"), (math.nan, "–")],
)
def test_numbers_are_short(value, written):
    assert write_number(value) == written


def test_a_share_is_not_rounded_to_a_whole_that_it_is_not():
    assert write_share(1.0) == "100\u202f%"
    assert write_share(0.9999, 1) == "> 99.9\u202f%"
    assert write_share(0.0) == "0\u202f%"


def test_the_love_plot_places_every_covariate_by_its_difference():
    drawn = draw_love([LoveRow("z1", 1.0, 0.0), LoveRow("a<b", 0.5, 0.2)], title="Love plot")
    rings = [float(x) for x in re.findall(r'class="ring before" cx="([\d.]+)%"', drawn)]
    dots = [float(x) for x in re.findall(r'class="dot after" cx="([\d.]+)%"', drawn)]
    origin = Scale(0.0, 1.08, left=1.5, right=98.5).place(0.0)
    assert dots[0] == pytest.approx(origin, abs=0.01)
    assert (rings[0] - origin) == pytest.approx(2 * (rings[1] - origin), abs=0.05)
    assert "a&lt;b: 0.5 before, 0.2 after" in drawn


def test_a_curve_has_a_gap_where_there_is_no_value():
    series = [Series("accuracy", "after", [1, 2, 3, 4], [0.5, math.nan, 0.6, 0.7])]
    marks = [Mark("chosen by balanced: step 4", "after", 4, 0.7)]
    drawn = draw_lines(series, title="Curves", x_name="step", y_range=(0.0, 1.0), marks=marks)
    (path,) = re.findall(r'class="curve after" d="([^"]+)"', drawn)
    assert [path.count(letter) for letter in "ML"] == [2, 1]
    assert path.startswith("M0.0 500.0")
    assert drawn.count('class="point after"') == 3
    assert "chosen by balanced: step 4" in drawn


def test_bars_are_as_high_as_their_shares():
    drawn = draw_bars(["1–2", "2–4"], [3, 1], title="Reuse", x_name="appearances")
    heights = [float(h) for h in re.findall(r'class="bar after"[^>]* height="([\d.]+)"', drawn)]
    assert heights[0] == pytest.approx(3 * heights[1], rel=1e-3)
    assert "1–2: 3 (75\u202f%)" in drawn


def test_names_of_many_bars_do_not_run_into_each_other():
    names = [f"{2**i}–{2 ** (i + 1)}" for i in range(13)]
    drawn = draw_bars(names, [1] * 13, title="Reuse", x_name="appearances")
    written = re.findall(r'text-anchor="middle">([^<]*)<', drawn)
    assert written[0] == "1–2"
    assert 2 <= len(written) <= 4
    assert all(f"{name}: 1" in drawn for name in names)  # each bar still says what it is
    few = draw_bars(names[:4], [1] * 4, title="Reuse", x_name="appearances")
    assert re.findall(r'text-anchor="middle">([^<]*)<', few) == names[:4]


def test_overlap_draws_the_first_label_above_and_the_second_below():
    one = np.array([1.0, 0.0])
    other = np.array([0.0, 1.0])
    drawn = draw_overlap(PairOverlap("cat", "dog", one, other, one, other))
    paths = re.findall(r'class="area (\w+)" d="([^"]+)"', drawn)
    assert [kind for kind, _ in paths] == ["after", "after", "before", "before"]
    above, below = paths[2][1], paths[3][1]
    assert "L0 0" in above
    assert "2000" not in above
    assert "L1 2000" in below


def test_a_heat_table_tints_by_size_and_tells_the_sign_apart():
    drawn = draw_heat(
        np.array([[0.5, -1.0], [math.nan, 0.0]]),
        ["a", "b"],
        ["x", "y"],
        caption="effects",
        write=lambda value: f"{value:.1f}",
    )
    assert re.findall(r"--t:([\d.]+)", drawn) == ["0.500", "1.000", "0.000", "0.000"]
    assert drawn.count("negative") == 1
