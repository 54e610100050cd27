"""Room 6: what a person looks at."""

from equipoise.report.figures import draw_batches, draw_counterfactuals, draw_tables, save_figure

__all__ = ["draw_batches", "draw_counterfactuals", "draw_tables", "save_figure"]
