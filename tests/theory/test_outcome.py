"""How an experiment ends, on a screen of any width."""

import io

import pandas as pd
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from equipoise.theory import Outcome


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
