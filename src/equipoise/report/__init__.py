"""Room 6: what a person looks at: the page, its sections, and pictures for papers."""

from equipoise.checks import require

require("matplotlib", extra="report")

from equipoise.report.figures import draw_batches, draw_counterfactuals, draw_tables
from equipoise.report.page import write_report
from equipoise.report.paper import (
    ValidationPoint,
    check_format,
    draw_bars,
    draw_categories,
    draw_curves,
    draw_validation,
    save_figure,
)
from equipoise.report.study import decode_counterfactuals
from equipoise.report.targets import PLOTS, Target, draw_plot, open_target

__all__ = [
    "PLOTS",
    "Target",
    "ValidationPoint",
    "check_format",
    "decode_counterfactuals",
    "draw_bars",
    "draw_batches",
    "draw_categories",
    "draw_counterfactuals",
    "draw_curves",
    "draw_plot",
    "draw_tables",
    "draw_validation",
    "open_target",
    "save_figure",
    "write_report",
]
