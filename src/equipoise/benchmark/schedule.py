"""The learning rate over a run, as a factor of the one that was set."""

from __future__ import annotations

import math

from equipoise.benchmark.settings import RunSettings


def lr_factor(settings: RunSettings, step: int) -> float:
    """The factor for step `step` (from 0): a linear warm-up, then constant or half a cosine.

    >>> settings = RunSettings(dataset="ColoredMNIST", algorithm="ERM", warm_up=4)
    >>> [lr_factor(settings, step) for step in (0, 1, 3, 100)]
    [0.25, 0.5, 1.0, 1.0]
    """
    warm = min(1.0, (step + 1) / settings.warm_up) if settings.warm_up else 1.0
    if settings.schedule == "constant":
        return warm
    return warm * 0.5 * (1.0 + math.cos(math.pi * step / settings.steps))
