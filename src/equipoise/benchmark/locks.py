"""Locks of runs and balancers; they are those of the whole package."""

from equipoise.locks import Locked, hold_lock

__all__ = ["Locked", "hold_lock"]
