"""What a balancer cannot use is refused before the fit, in words that say what to do."""

import datetime

import numpy as np
import pandas as pd
import pytest

from equipoise import CausalBalancer
from tests.conftest import make_spurious

N = 300
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, 2))
Y, SITES = RANDOM.integers(2, size=N), RANDOM.integers(2, size=N)


def test_environments_that_are_measurements_are_refused():
    with pytest.raises(ValueError, match=r"the environment looks continuous: .* such as -?\d"):
        CausalBalancer().fit(X, Y, X[:, 0])
    with pytest.raises(ValueError, match="choose another environment: text or whole numbers"):
        CausalBalancer().fit(pd.DataFrame(X, columns=["a", "b"]), Y, environment="a")
    with pytest.raises(ValueError, match="the label looks continuous"):
        CausalBalancer().fit(X, X[:, 0], SITES)


def test_whole_numbers_stored_as_floats_are_environments():
    assert CausalBalancer().fit(X, Y, SITES.astype(float)).environments_.tolist() == [0, 1]


def test_many_environments_of_few_examples_are_warned_of():
    data = make_spurious(n=N)
    sites = np.arange(N) // 6
    with pytest.warns(UserWarning, match="50 environments in 300 .* fewer than 10 .* '0' with 6"):
        CausalBalancer(max_steps=1).fit(data.source.x, data.labels, sites)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.date_range("2020", periods=N), "column 'c' holds Timestamp.*: drop it, or turn it"),
        ([datetime.date(2020, 1, 1)] * N, r"column 'c' holds datetime.date\(2020, 1, 1\): drop it"),
        (
            ["red", "blue"] * (N // 2),
            r"column 'c' holds 'red': turn text into numbers with pandas.get_dummies\(X\)",
        ),
        ([f"p{i}" for i in range(N)], "column 'c' .* hardly a text twice, first 'p0': .* drop it"),
    ],
)
def test_a_column_that_holds_no_numbers_is_named_with_what_to_do(values, message):
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(c=values)
    with pytest.raises(ValueError, match=message):
        CausalBalancer().fit(frame, Y, SITES)


def test_all_columns_without_numbers_are_named_at_once():
    texts = [f"p{i}" for i in range(N)]
    frame = pd.DataFrame(X).assign(sex="f", day=pd.Timestamp("2020-01-01"), key=texts)
    with pytest.raises(ValueError, match=r"'sex' .* 'day' .* 'key'"):
        CausalBalancer().fit(frame, Y, SITES)
