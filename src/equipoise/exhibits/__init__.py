"""The exhibits of the paper, made again: runs -> records, table and plot, the paper's beside."""

from equipoise.exhibits.request import ExhibitRequest
from equipoise.exhibits.table1 import reproduce_table1

__all__ = ["ExhibitRequest", "reproduce_table1"]
