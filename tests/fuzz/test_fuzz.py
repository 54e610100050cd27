"""Bad input ends in success or in an error of ours: never raw, never hung, never crashed."""

import os
import signal

import numpy as np
import pytest

from equipoise.checks import check_count
from equipoise.data import Examples
from tests.fuzz.areas import TABLES, draw_cases
from tests.fuzz.forked import Case, describe, judge, run_cases
from tests.fuzz.good import remove_folder

SECONDS = 60  # a case takes milliseconds; a busy machine may take its time


@pytest.fixture(scope="module", autouse=True)
def folder():
    yield
    remove_folder()


def thin(cases, at_most, seed=0):
    """As many cases as the tests have time for, spread over all."""
    cases = list(cases)
    rng = np.random.default_rng(seed)
    kept = sorted(rng.choice(len(cases), size=min(at_most, len(cases)), replace=False))
    return [cases[i] for i in kept]


@pytest.mark.slow
@pytest.mark.parametrize(("area", "at_most"), [("calls", 1500), ("files", 900), ("commands", 350)])
def test_each_argument_file_and_option_may_be_bad(area, at_most):
    wrong = run_cases(thin(TABLES[area](), at_most), seconds=SECONDS)
    assert not wrong, describe(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("area", "n"), [("calls", 400), ("files", 500), ("sweeps", 700), ("commands", 50)]
)
def test_several_may_be_bad_at_once(area, n):
    wrong = run_cases(draw_cases(area, n, seed=1), seconds=SECONDS)
    assert not wrong, describe(wrong)


class TestJudging:
    """The judge itself sees what it must see."""

    def test_errors_of_ours_are_allowed_and_raw_ones_are_not(self):
        assert judge(lambda: Examples([[1.0]], [0.5], [0])) == ""
        assert judge(lambda: 1 / 0).startswith("ZeroDivisionError")
        assert judge(lambda: int("x")).startswith("ValueError")
        # The last frame is ours, but at a comparison and not at a `raise`.
        assert judge(lambda: check_count("n", 5, least="x")).startswith("TypeError")
        assert judge(lambda: np.zeros(3)[7]).startswith("IndexError")

    def test_a_hang_and_a_crash_are_seen_and_the_next_case_still_runs(self):
        cases = [
            Case("fine", lambda: None),
            Case("crash", lambda: os.kill(os.getpid(), signal.SIGKILL)),
            Case("hang", lambda: signal.pause()),
            Case("raw", lambda: {}["a"]),
        ]
        wrong = run_cases(cases, seconds=2)
        assert list(wrong) == ["crash", "hang", "raw"]
        assert "died" in wrong["crash"]
        assert "hung" in wrong["hang"]

    def test_too_much_memory_is_seen(self):
        wrong = run_cases([Case("huge", lambda: np.ones(2**31))], memory=2**30)
        assert "MemoryError" in wrong["huge"]
