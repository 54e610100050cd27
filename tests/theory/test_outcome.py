"""Experiments keep every case, go on where they stopped, and end on a screen of any width."""

import io
from dataclasses import dataclass

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from equipoise.theory import Outcome
from equipoise.theory.outcome import read_records, run_cases


@pytest.mark.parametrize("width", [60, 80, 300])
def test_no_cell_is_cut_on_a_narrow_screen(width):
    table = pd.DataFrame(
        {"case": ["a case with a long name", "another"]}
        | {f"measure {i}": [i + 0.123, None] for i in range(9)}
    )
    outcome = Outcome("x", {"what was found": table}, Figure(), "So it is.", True)
    console = Console(file=io.StringIO(), width=width)
    outcome.show(console)
    shown = console.file.getvalue()
    assert "…" not in shown
    assert shown.rstrip().endswith("So it is.")
    for i in range(9):
        assert f"measure {i}" in shown
        assert f"{i}.123" in shown
    parts = shown.count("a case with a long name")
    assert (parts == 1) == (width == 300)


@dataclass(frozen=True)
class Case:
    number: int
    seed: int = 0


CASES = [Case(3), Case(1), Case(2)]


def square(case):
    return {"square": case.number**2}


def run(path, work=square, cases=CASES, **options):
    return run_cases(cases, work, path, description="squares", verbose=False, **options)


def test_answers_come_in_the_order_of_the_cases(tmp_path):
    found = run(tmp_path / "records.jsonl", n_jobs=2)
    assert [record["square"] for record in found] == [9, 1, 4]
    assert [record["case"] for record in found] == [{"number": n, "seed": 0} for n in (3, 1, 2)]


def test_an_interrupted_experiment_goes_on_and_ends_the_same(tmp_path):
    path = tmp_path / "records.jsonl"
    seen = []

    def stop_at_the_second(case):
        seen.append(case.number)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return square(case)

    with pytest.raises(KeyboardInterrupt):
        run(path, stop_at_the_second)
    assert len(read_records(path)) == 1
    assert run(path, stop_at_the_second) == run(tmp_path / "other.jsonl")
    assert seen == [3, 1, 1, 2]


def test_other_settings_are_other_cases(tmp_path):
    path = tmp_path / "records.jsonl"
    run(path)
    found = run(path, lambda case: {"square": -1}, [Case(3, seed=1), Case(3)])
    assert [record["square"] for record in found] == [-1, 9]
    assert len(path.read_text().splitlines()) == 4


@pytest.mark.parametrize("damage", ['{"square": 1}\n', "{", "[" * 5000, "\n", "3", "ü\x00"])
def test_a_damaged_file_is_named(tmp_path, damage):
    path = tmp_path / "records.jsonl"
    path.write_text(damage)
    with pytest.raises(ValueError, match=r"records\.jsonl is not a readable file of records"):
        run(path)
