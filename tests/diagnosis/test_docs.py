"""The page on diagnostics says what is true: its examples run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from equipoise.diagnosis import BalanceDiagnostics

PAGE = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()


def test_every_table_of_the_diagnosis_is_on_the_page():
    tables = [field.name for field in fields(BalanceDiagnostics) if field.type == "pd.DataFrame"]
    assert len(tables) > 8
    for name in tables:
        assert f"`{name}`" in PAGE
