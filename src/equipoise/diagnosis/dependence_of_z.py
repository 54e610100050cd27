"""How strongly label and z depend on each other, boiled down to what a verdict needs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.information import share_told
from equipoise.diagnosis.strength import Variation, measure_variation

#: Below this share of the label's entropy a dependence is called weak.
WEAK = 0.02
#: So many standard deviations between two labels must be more than chance makes of nothing.
COARSE = 0.25


@dataclass(frozen=True)
class Dependence:
    """The numbers a verdict rests on, of z within environments.

    before, after: mean |SMD| over coordinates and label pairs; chance: what perfect balance would
    leave with so few examples; told_before, told_after: what z tells about the label, as a share
    of the label's entropy, NaN where too few examples are left to know; overlap: mean over label
    pairs; known_is_gone: what the user knows told something about the label before, and does no
    more; variation: how much what z tells changes between environments (`measure_variation`).

    rest_before, rest_told_before: `before` and `told_before` of the environments of which balanced
    batches show something, None where that is all of them. What is left must be compared with
    these: an environment that is left out is not balanced.
    """

    before: float
    after: float
    chance: float
    told_before: float
    told_after: float
    overlap: float
    known_is_gone: bool = False
    variation: Variation | None = None
    rest_before: float | None = None
    rest_told_before: float | None = None

    @property
    def differed(self) -> float:
        """`before`, of what is left."""
        return self.before if self.rest_before is None else self.rest_before

    @property
    def told(self) -> float:
        """`told_before`, of what is left."""
        return self.told_before if self.rest_told_before is None else self.rest_told_before

    @property
    def is_weak(self) -> bool:
        return self.told_before < WEAK and self.before < max(THRESHOLD, 1.5 * self.chance)

    @property
    def is_steady(self) -> bool:
        """Z is known to tell about as much of the label in one environment as in another.

        What is spurious changes between environments; the label's own content does not.
        """
        return self.variation is not None and self.variation.is_steady

    @property
    def varies(self) -> bool:
        """Z is seen to tell more of the label in one environment than in another."""
        return self.variation is not None and self.variation.is_seen

    @property
    def is_known(self) -> bool:
        """Enough is left to say what became of the dependence.

        To say that it went, means must be known well enough to see half of a difference go,
        unless the covariate itself is known and seen to be gone.
        """
        if np.isnan(self.told) or np.isnan(self.told_after):
            return False
        if self.known_is_gone or 1.5 * self.chance < max(COARSE, 0.5 * self.differed):
            return True
        return not (self.is_even or self.is_reduced)

    @property
    def is_even(self) -> bool:
        """Labels differ in the mean of z no more than they may."""
        return self.after < max(THRESHOLD, 1.5 * self.chance)

    @property
    def is_removed(self) -> bool:
        """Z tells next to nothing any more and its means are even; or what is known of it is gone.

        In the latter case half of what z told may stay: it is then the label's own content.
        """
        if not self.is_known:
            return False
        if self.known_is_gone:
            return self.told_after < max(WEAK, 0.5 * self.told)
        return self.is_even and self.told_after < max(WEAK, 0.25 * self.told)

    @property
    def is_all_gone(self) -> bool:
        return self.known_is_gone or self.told_after < max(WEAK, 0.1 * self.told)

    @property
    def is_reduced(self) -> bool:
        return self.after < 0.5 * self.differed and self.told_after < 0.5 * self.told


def measure_dependence(
    table: pd.DataFrame,
    information: pd.DataFrame,
    overlap: pd.DataFrame,
    use: pd.DataFrame,
    strength: pd.DataFrame,
) -> Dependence:
    """Boil the tables down to what the verdict needs."""
    z = table[(table["kind"] == "z") & (table["environment"] != POOLED)]
    told = information[(information["kind"] == "z") & (information["environment"] != POOLED)]
    rest = told[told["after"].notna()]
    is_whole = (rest["left"] == rest["examples"]).all() and len(rest) == len(told)
    return Dependence(
        before=float(z["smd_before"].mean()),
        after=float(z["smd_after"].mean()),
        chance=_differ_by_chance(use),
        told_before=share_told(told, "before", by="examples"),
        told_after=share_told(told, "after", by="left"),
        overlap=float(overlap["overlap_before"].mean()),
        known_is_gone=_is_known_gone(information),
        variation=measure_variation(strength),
        rest_before=None if is_whole else float(z["smd_before"][z["smd_after"].notna()].mean()),
        rest_told_before=None if is_whole else share_told(rest, "before", by="left"),
    )


def _is_known_gone(information: pd.DataFrame) -> bool:
    known = information[(information["kind"] == "known") & (information["environment"] != POOLED)]
    gone = []
    for _, rows in known.groupby("variable", sort=False):
        if share_told(rows, "before", by="examples") > WEAK:
            after, rest = share_told(rows, "after", by="left"), rows[rows["after"].notna()]
            gone.append(after < 0.1 * share_told(rest, "before", by="left"))
    return bool(gone) and all(gone)


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
