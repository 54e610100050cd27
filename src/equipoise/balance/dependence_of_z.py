"""How strongly label and z depend on each other, boiled down to what a verdict needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.balance.balance_table import THRESHOLD
from equipoise.balance.groups import POOLED
from equipoise.balance.strength import VARYING, measure_variation

#: Below this share of the label's entropy a dependence is called weak.
WEAK = 0.02


@dataclass(frozen=True)
class Dependence:
    """The numbers a verdict rests on, of z within environments.

    before, after: mean |SMD| over coordinates and label pairs; chance: what perfect balance would
    leave with so few examples; told_before, told_after: what z tells about the label, as a share
    of the label's entropy; overlap: mean over label pairs; known_is_gone: what the user knows
    told something about the label before, and does no more; variation: how much what z tells
    changes between environments (`measure_variation`), None if that is not known.
    """

    before: float
    after: float
    chance: float
    told_before: float
    told_after: float
    overlap: float
    known_is_gone: bool = False
    variation: float | None = None

    @property
    def is_weak(self) -> bool:
        return self.told_before < WEAK and self.before < max(THRESHOLD, 1.5 * self.chance)

    @property
    def is_steady(self) -> bool:
        """Z is known to tell about as much of the label in one environment as in another.

        What is spurious changes between environments; the label's own content does not.
        """
        return self.variation is not None and self.variation < VARYING

    @property
    def is_even(self) -> bool:
        """Labels differ in the mean of z no more than they may."""
        return self.after < max(THRESHOLD, 1.5 * self.chance)

    @property
    def is_removed(self) -> bool:
        """Z tells next to nothing any more and its means are even; or what is known of it is gone.

        In the latter case half of what z told may stay: it is then the label's own content.
        """
        if self.known_is_gone:
            return self.told_after < max(WEAK, 0.5 * self.told_before)
        return self.is_even and self.told_after < max(WEAK, 0.25 * self.told_before)

    @property
    def is_all_gone(self) -> bool:
        return self.known_is_gone or self.told_after < max(WEAK, 0.1 * self.told_before)

    @property
    def is_reduced(self) -> bool:
        return self.after < 0.5 * self.before and self.told_after < 0.5 * self.told_before


def measure_dependence(
    table: pd.DataFrame,
    information: pd.DataFrame,
    overlap: pd.DataFrame,
    use: pd.DataFrame,
    strength: pd.DataFrame,
) -> Dependence:
    """Boil the tables down to what the verdict needs."""
    z = table[(table["kind"] == "z") & (table["environment"] != POOLED)]
    told = information[(information["variable"] == "z") & (information["environment"] == POOLED)]
    entropy = max(float(told["label_entropy"].iloc[0]), 1e-12)
    return Dependence(
        before=float(z["smd_before"].mean()),
        after=float(z["smd_after"].mean()),
        chance=_differ_by_chance(use),
        told_before=min(1.0, float(told["before"].iloc[0]) / entropy),
        told_after=min(1.0, float(told["after"].iloc[0]) / entropy),
        overlap=float(overlap["overlap_before"].mean()),
        known_is_gone=_is_known_gone(information),
        variation=measure_variation(strength),
    )


def _is_known_gone(information: pd.DataFrame) -> bool:
    known = information[(information["kind"] == "known") & (information["environment"] == POOLED)]
    told = known[known["before"] > WEAK * known["label_entropy"]]
    return len(told) > 0 and bool((told["after"] < 0.1 * told["before"]).all())


def _differ_by_chance(use: pd.DataFrame) -> float:
    """Expected |SMD| of label means of nothing but noise, at the effective sizes there are."""
    found = []
    for _, part in use.groupby("environment", sort=False):
        sizes = part["effective_size"].to_numpy()
        variance = 1.0 / sizes[sizes > 0]
        first, second = np.triu_indices(len(variance), k=1)
        found.append(np.sqrt(2 / np.pi * (variance[first] + variance[second])))
    together = np.concatenate(found) if found else np.zeros(1)
    return float(together.mean()) if together.size else 0.0
