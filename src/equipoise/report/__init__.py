"""Room 6: what a person looks at."""

from equipoise.report.figures import draw_batches, draw_counterfactuals, draw_tables, save_figure
from equipoise.report.run_story import RunStory, tell_run
from equipoise.report.writing import write_report

__all__ = [
    "RunStory",
    "draw_batches",
    "draw_counterfactuals",
    "draw_tables",
    "save_figure",
    "tell_run",
    "write_report",
]
