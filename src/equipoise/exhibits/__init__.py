"""The exhibits of the paper, made again: runs -> records, table and plot, the paper's beside."""

from equipoise.checks import require

require("matplotlib", extra="report")
require("rich", extra="cli")

from collections.abc import Callable

from equipoise.exhibits.comparisons import reproduce_rivals, reproduce_validation
from equipoise.exhibits.figures import (
    reproduce_figure3,
    reproduce_figure4a,
    reproduce_figure4b,
    reproduce_figure4c,
    reproduce_figure5,
)
from equipoise.exhibits.request import Exhibit, ExhibitRequest
from equipoise.exhibits.tables import reproduce_table1, reproduce_table2, reproduce_table4

EXHIBITS: dict[str, Callable[[ExhibitRequest], Exhibit]] = {
    "table1": reproduce_table1,
    "table2": reproduce_table2,
    "table4": reproduce_table4,
    "figure3": reproduce_figure3,
    "figure4a": reproduce_figure4a,
    "figure4b": reproduce_figure4b,
    "figure4c": reproduce_figure4c,
    "figure5": reproduce_figure5,
    "validation": reproduce_validation,
    "rivals": reproduce_rivals,
}
"""By the name that `equipoise reproduce` takes."""

__all__ = ["EXHIBITS", "Exhibit", "ExhibitRequest"]
