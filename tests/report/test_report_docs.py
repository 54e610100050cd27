"""The page on reports does what it says."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


def test_every_plot_is_named():
    from equipoise.report import PLOTS

    for name in PLOTS:
        assert f"`{name}`" in PAGE.read_text()
