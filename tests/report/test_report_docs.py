"""The page on reports does what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def test_the_examples_run_in_order():
    names = {"__name__": "docs"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    page = names["page"].read_text()
    assert "Label × scanner" in page
    assert (names["output"] / "love.svg").is_file()


def test_every_plot_is_named():
    from equipoise.report import PLOTS

    for name in PLOTS:
        assert f"`{name}`" in PAGE.read_text()
