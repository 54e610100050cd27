"""Numbers, ticks and axes of every picture."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.report.pictures import Axis, find_ticks, make_axis, write_number, write_share


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_ticks_are_few_evenly_spread_and_inside(low, width, n_at_most):
    ticks = find_ticks(low, low + width, n_at_most)
    assert len(ticks) <= n_at_most + 1
    slack = 1e-6 * (abs(low) + width)
    assert all(low - slack <= tick <= low + width + slack for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[:1], rtol=1e-3)


def test_a_value_outside_stands_at_the_border():
    axis = Axis(0.0, 2.0)
    assert [axis.place(x) for x in (-5.0, 0.0, 1.0, 2.0, math.inf)] == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_an_axis_spans_what_is_known():
    axis = make_axis([3.0, math.nan, 1.0, math.inf], at_values=True)
    assert (axis.low, axis.high) == (1.0, 3.0)
    assert axis.ticks == ((1.0, "1"), (3.0, "3"))
    assert make_axis([]).high > make_axis([]).low


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
