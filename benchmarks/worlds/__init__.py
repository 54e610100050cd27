"""`python -m benchmarks worlds`: the battery of worlds with known truth."""

from benchmarks.worlds.catalog import WORLDS, WorldSpec
from benchmarks.worlds.command import main
from benchmarks.worlds.generate import Sample, World, make_world

__all__ = ["WORLDS", "Sample", "World", "WorldSpec", "main", "make_world"]
