"""Static pictures for papers and slides, a kind in each file."""

from equipoise.report.figures.batches import draw_batches
from equipoise.report.figures.latent import draw_counterfactuals
from equipoise.report.figures.saving import save_figure
from equipoise.report.figures.tables import draw_tables

__all__ = ["draw_batches", "draw_counterfactuals", "draw_tables", "save_figure"]
