"""The page on diagnostics says what is true: its examples run."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pandas as pd

from equipoise.diagnosis import BalanceDiagnostics

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def test_the_examples_of_the_page_run_and_find_the_scanner(capsys):
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL):
        exec(compile(block, "diagnostics.md", "exec"), names)
    found = names["found"]
    assert isinstance(names["table"], pd.DataFrame)
    known = found.worst.query("kind == 'known'")
    assert known["smd_before"].min() > 0.5
    assert known["smd_after"].max() < 0.1
    assert found.verdict.recommendation in ("balance", "trade-off")
    assert "Verdict" in capsys.readouterr().out


def test_every_table_of_the_diagnosis_is_on_the_page():
    tables = [field.name for field in fields(BalanceDiagnostics) if field.type == "pd.DataFrame"]
    assert len(tables) > 8
    for name in tables:
        assert f"`{name}`" in PAGE
