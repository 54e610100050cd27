"""The forms of a table hold the same information, and a balancer that minds them is caught."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from benchmarks.column_orders import VALUES, WORLD, compare, rewrite
from benchmarks.worlds import make_world


class FirstColumn:
    """A balancer whose answer depends on which column comes first."""

    def __init__(self, random_state: int) -> None:
        pass

    def fit(self, x, y, environments):
        self.n_varying_ = int(len(np.unique(x[:, 0])) == 2)
        self.weights_ = np.ones(len(y))
        return self

    def diagnose(self):
        return SimpleNamespace(verdict=SimpleNamespace(recommendation="balance"))


def test_every_form_holds_the_same_columns():
    x = make_world(WORLD, 0).X
    forms = dict(rewrite(x, 3, np.random.default_rng(0)))
    for order in range(1, 4):
        found = forms[f"order {order}"]
        assert not np.array_equal(found, x)
        np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(x, axis=1))
    for one, other in zip(forms["scale"].T, x.T, strict=True):
        np.testing.assert_allclose(np.corrcoef(one, other)[0, 1], 1, atol=1e-8)
    assert forms["coded"].shape[1] == x.shape[1] - VALUES + 1


def test_the_code_says_which_of_the_columns_is_hot():
    world = make_world(WORLD, 0)
    code = dict(rewrite(world.X, 0, np.random.default_rng(0)))["coded"][:, -1].astype(int)
    pairs = set(zip(code, world.covariate, strict=True))
    assert len(pairs) == VALUES


def test_a_balancer_that_minds_the_order_does_not_agree_with_itself(capsys):
    found = compare(6, make_balancer=FirstColumn)
    assert len(set(found.values())) > 1
    assert "of 9 forms give the same number" in capsys.readouterr().out
