"""`python -m benchmarks worlds`: the battery of worlds with known truth."""

from benchmarks.worlds.catalog import WORLDS, WorldSpec
from benchmarks.worlds.generate import Sample, World, make_world

__all__ = ["WORLDS", "Sample", "World", "WorldSpec", "make_world"]
