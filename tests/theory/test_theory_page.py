"""docs/theory-results.md says what the committed records say."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from equipoise.theory.balanced_batches import (
    describe_balance,
    examine_ties,
    list_balance_cases,
    tabulate_functions,
    tabulate_shares,
    tabulate_ties,
)
from equipoise.theory.balancing_scores import examine_functions
from equipoise.theory.identification import (
    describe_recovery,
    list_cases,
    tabulate_recovery,
    tabulate_scores,
)
from equipoise.theory.minimax import (
    describe_risks,
    list_minimax_cases,
    tabulate_risks,
    tabulate_tilt,
)
from equipoise.theory.outcome import NOT_AS_PROMISED, show_value

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "theory-results.md").read_text().replace("\n> ", " ").split())


def read(name):
    lines = (ROOT / "results" / f"theory-{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def examine(name):
    """The records, the cases they should be of, the tables, and the verdict."""
    records = read(name)
    if name == "identifiability":
        tables = tabulate_recovery(records), tabulate_scores(records)
        return records, list_cases(range(5)), tables, describe_recovery(*tables)
    if name == "balance":
        functions = tabulate_functions(examine_functions(6_000, seed=0))
        ties = tabulate_ties(examine_ties(6_000, seed=0))
        tables = tabulate_shares(records), functions, ties
        cases = list_balance_cases(0, quick=False)
        return records, cases, tables, describe_balance(records, functions)
    tables = tabulate_risks(records), tabulate_tilt()
    cases = list_minimax_cases(range(3), quick=False)
    return records, cases, tables, describe_risks(*tables)


# In the Gaussian world of minimax, a network on balanced batches stays too far from Bayes.
@pytest.mark.parametrize(
    ("name", "as_promised"), [("identifiability", True), ("balance", True), ("minimax", False)]
)
def test_the_page_says_what_was_measured(name, as_promised):
    records, cases, tables, (holds, sentence) = examine(name)
    assert holds == as_promised == (not sentence.startswith(NOT_AS_PROMISED))
    assert sentence in PAGE
    assert [record["case"] for record in records] == [asdict(case) for case in cases]
    for table in tables:
        numbers = table.select_dtypes("float").to_numpy().ravel()
        shown = [show_value(float(value)) for value in numbers[~np.isnan(numbers)]]
        assert shown
        assert [value for value in shown if value not in PAGE] == []
