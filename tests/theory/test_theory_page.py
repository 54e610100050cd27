"""docs/theory-results.md says what the committed records say."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from equipoise.theory.balanced_batches import BALANCE
from equipoise.theory.identification import IDENTIFIABILITY
from equipoise.theory.minimax import MINIMAX
from equipoise.theory.outcome import frame_records, show_value

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "theory-results.md").read_text().replace("\n> ", " ").split())


def read(name):
    lines = (ROOT / "results" / f"theory-{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize("experiment", [IDENTIFIABILITY, BALANCE, MINIMAX], ids=lambda e: e.name)
def test_the_page_says_what_was_measured(experiment):
    records = read(experiment.name)
    tables, _, holds, words = experiment.judge(frame_records(records), 0, False)
    assert holds
    assert words in PAGE
    cases = experiment.list_cases(0, False)
    assert [record["case"] for record in records] == [asdict(case) for case in cases]
    for table in tables.values():
        numbers = table.select_dtypes("float").to_numpy().ravel()
        shown = [show_value(float(value)) for value in numbers[~np.isnan(numbers)]]
        assert shown
        assert [value for value in shown if value not in PAGE] == []
