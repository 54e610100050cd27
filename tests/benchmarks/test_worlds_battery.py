"""The battery measures a balancer against the truth, and says where a promise fails."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from benchmarks.__main__ import main
from benchmarks.worlds import make_world
from benchmarks.worlds.command import measure_level, read_lines, run_all
from benchmarks.worlds.measure import information, measure, measure_left
from benchmarks.worlds.page import read_half, write_page
from benchmarks.worlds.summary import check_figures, tabulate


class Oracle:
    """A balancer that is told the world it is given."""

    def __init__(self, world: str, recommendation: str = "balance", *, random_state: int) -> None:
        self.world = make_world(world, random_state)
        self.recommendation = recommendation

    def fit(self, X, y, environments):
        self.weights_ = self.world.true_weights()
        self.n_varying_ = 1
        return self

    def diagnose(self):
        verdict = SimpleNamespace(
            recommendation=self.recommendation,
            headline="",
            price=5.0,
            price_error=1.0,
            protection=30.0,
            protection_error=1.0,
        )
        situations = pd.DataFrame(
            {"plain": [80.0, 60.0], "balanced": [75.0, 75.0]}, index=["as they are", "even"]
        )
        return SimpleNamespace(verdict=verdict, situations=situations)


def run_oracle(world: str, seed: int = 0, recommendation: str = "balance"):
    return measure(
        world, seed, lambda random_state: Oracle(world, recommendation, random_state=random_state)
    )


def figure(runs, sign: str):
    return next(own for own in check_figures(tabulate(runs)) if own.text.startswith(sign))


def test_the_true_weights_recover_all_of_the_gain():
    runs = [run_oracle("column")]
    row = tabulate(runs).loc["column"]
    assert row["recovered"] == pytest.approx(1)
    assert row["true"] > row["random"] + 5
    assert figure(runs, "1b").holds


def test_the_real_price_and_protection_are_those_of_the_test_samples():
    run = run_oracle("column")
    row = tabulate([run]).loc["column"]
    gained = run.mean_accuracy("balanced", "even") - run.mean_accuracy("random", "even")
    assert row["real even"] == pytest.approx(gained)
    assert row["real price"] > 0
    assert row["even"] == 15
    assert np.isnan(row["reversed"])


def test_a_direction_in_a_world_with_nothing_planted_breaks_the_promise():
    broken = figure([run_oracle("nothing, 300 rows")], "2c")
    assert not broken.holds
    assert broken.failing == ("nothing, 300 rows",)


def test_harm_without_a_caution_is_named(monkeypatch):
    def harm(self, X, y, environments):
        self.weights_, self.n_varying_ = np.where(np.arange(len(y)) < 20, 1.0, 1e-9), 1
        return self

    monkeypatch.setattr(Oracle, "fit", harm)
    runs = [run_oracle("content varies")]
    assert not figure(runs, "2a").holds
    assert not figure(runs, "2b").holds
    assert figure(runs, "2b").failing[0].startswith("content varies −")
    assert figure([run_oracle("content varies", 0, "trade-off")], "2b").holds


def test_nothing_of_the_covariate_is_left_under_true_weights_and_all_under_equal_ones():
    world = make_world("column", 0)
    assert measure_left(world, world.true_weights()) < 0.01
    assert measure_left(world, np.ones(len(world.y))) == pytest.approx(1)


def test_independent_codes_carry_no_information():
    rng = np.random.default_rng(0)
    codes, y = rng.integers(4, size=4000), rng.integers(3, size=4000)
    assert information(codes, y, np.zeros(4000, dtype=int), np.ones(4000)) < 1e-3
    assert information(y, y, np.zeros(4000, dtype=int), np.ones(4000)) == pytest.approx(
        np.log(3), abs=0.01
    )


def test_an_interrupted_battery_goes_on_where_it_stopped(tmp_path):
    lines, console, calls = tmp_path / "worlds.jsonl", Console(quiet=True), []

    def measure_one(name, seed):
        calls.append((name, seed))
        return run_oracle(name, seed)

    first = list(run_all(["column, 300 rows"], [0], 1, lines, console, measure_one=measure_one))
    with lines.open("a") as file:
        file.write('{"digest": "cut sho')
    both = list(run_all(["column, 300 rows"], [0, 1], 1, lines, console, measure_one=measure_one))
    assert calls == [("column, 300 rows", 0), ("column, 300 rows", 1)]
    assert both[0] == first[0]
    third = list(run_all(["column, 300 rows"], [0, 1], 1, lines, console, measure_one=measure_one))
    assert third == both
    assert len(calls) == 2
    assert read_lines(lines, "of other code") == {}


def test_the_page_is_made_from_the_record_alone(tmp_path):
    (tmp_path / "docs" / "images").mkdir(parents=True)
    runs = [run_oracle("column, 300 rows"), run_oracle("nothing, 300 rows")]
    write_page(tmp_path, "seen", (0,), tabulate(runs))
    page = (tmp_path / "docs" / "worlds.md").read_text()
    assert "| column, 300 rows | 300 |" in page
    write_page(tmp_path, "unseen", (1000,), tabulate(runs))
    page = (tmp_path / "docs" / "worlds.md").read_text()
    assert page.count("| column, 300 rows | 300 |") == 2


def test_the_record_gives_the_table_back():
    table = tabulate([run_oracle("column, 300 rows"), run_oracle("nothing, 300 rows")])
    rows = [{"world": name} | dict(row) for name, row in table.iterrows()]
    again = read_half({"worlds": rows})
    assert [own.write() for own in check_figures(again)] == [
        own.write() for own in check_figures(table)
    ]


def test_the_level_counts_runs_of_worlds_with_nothing_planted(capsys):
    names = ["column", "nothing", "nothing, 300 rows"]
    found = measure_level(
        names, 20, 1, lambda name, seed: int(name == "nothing" and seed % 10 == 0)
    )
    assert found == {"nothing": 2, "nothing, 300 rows": 0}
    assert "2 of 40 runs with nothing planted: 5.0%" in capsys.readouterr().out


def test_options_after_the_name_reach_the_battery():
    with pytest.raises(SystemExit, match="no world's name contains"):
        main(["worlds", "--only", "colum n"])
