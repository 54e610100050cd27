"""What the paper published: every number of its tables, and the hyperparameters behind them."""

from equipoise.paper.accuracies import PaperAccuracy, find_accuracy, list_accuracies
from equipoise.paper.settings import list_paper_datasets, paper_settings

__all__ = [
    "PaperAccuracy",
    "find_accuracy",
    "list_accuracies",
    "list_paper_datasets",
    "paper_settings",
]
