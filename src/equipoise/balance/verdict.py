"""The diagnosis in words: what was spurious, how much is left, what to do."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from equipoise.balance.advice import (
    advise_caliper,
    advise_latent,
    advise_matches,
    advise_overlap,
    advise_size,
)
from equipoise.balance.dependence_of_z import Dependence
from equipoise.balance.findings import (
    tell_after,
    tell_before,
    tell_features,
    tell_gain,
    tell_known,
)
from equipoise.balance.gain import Gain

#: Accuracy below which a gain is small, and from which on a loss, or what beats chance, is large.
SMALL, LARGE = 0.02, 0.1
#: A gain known less well than this decides nothing.
UNSURE = 0.05


@dataclass(frozen=True)
class Verdict:
    """What a reader takes away.

    level: "nothing to gain", "removed", "reduced" or "left", from good news to bad.
    headline: the verdict in a sentence; findings: what it rests on; advice: what to do next.
    """

    level: str
    headline: str
    findings: tuple[str, ...]
    advice: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.findings, *self.advice])


def decide_verdict(
    dependence: Dependence,
    gain: Gain | None,
    *,
    n_environments: int,
    n_labels: int,
    n_matches: int,
    latent_dim: int,
    overlap: pd.DataFrame,
    use: pd.DataFrame,
    information: pd.DataFrame,
    evened: pd.DataFrame,
    by_caliper: pd.DataFrame,
    by_n_matches: pd.DataFrame,
) -> Verdict:
    """Weigh the numbers and say it in words."""
    level = _choose_level(dependence, gain)
    findings = [tell_before(dependence), tell_after(dependence, level)]
    findings += tell_known(information)
    findings += tell_features(evened)
    if gain is not None:
        findings.append(tell_gain(gain))
    advice: list[str] = []
    if level != "nothing to gain":
        if level != "removed":
            advice += advise_matches(by_n_matches, n_matches, n_labels)
            advice += advise_caliper(by_caliper)
            advice += advise_overlap(overlap)
            advice += advise_latent(latent_dim, n_environments)
        advice += advise_size(use)
        if level == "removed" and _gains_little(gain):
            advice.append(
                "A small classifier gains nothing by it. Compare your own model trained on both "
                "kinds of batches, by accuracy under balanced_weights of a held-out part."
            )
        elif level == "removed":
            advice.append(
                "Train on balanced batches (batch_sampler) and choose checkpoints by accuracy "
                "under balanced_weights of a held-out part."
            )
    else:
        advice.append("Random batches will do; balanced ones would show fewer examples more often.")
    return Verdict(level, _HEADLINES[level](dependence), tuple(findings), tuple(advice))


def _choose_level(dependence: Dependence, gain: Gain | None) -> str:
    if dependence.is_weak:
        return "nothing to gain"
    # Where a plain classifier owes much to a dependence that is gone now, one that gains nothing
    # has only not found what else to look at.
    if _gains_little(gain) and (not dependence.is_removed or _loses_little(gain)):
        return "nothing to gain"
    if dependence.is_removed:
        return "removed"
    return "reduced" if dependence.is_reduced else "left"


def _gains_little(gain: Gain | None) -> bool:
    """Surely little; a classifier that sees hardly anything besides Z could not tell."""
    if gain is None or gain.error > UNSURE or gain.plain_balanced < gain.chance + LARGE:
        return False
    return gain.gain < max(SMALL, gain.error)


def _loses_little(gain: Gain | None) -> bool:
    return gain is not None and gain.error < UNSURE and gain.loss < LARGE


_HEADLINES = {
    "nothing to gain": lambda d: (
        "There is little to gain from balancing these data: "
        + (
            "the labels hardly differ in Z."
            if d.is_weak
            else "a classifier trained on balanced batches is no better for it."
        )
    ),
    "removed": lambda d: (
        f"A {_strength(d.told_before)} dependence of the label on Z was found, and balanced "
        f"batches remove {'it' if d.is_all_gone else 'most of it'}."
    ),
    "reduced": lambda d: (
        f"A {_strength(d.told_before)} dependence of the label on Z was found; balanced batches "
        "reduce it, but some is left."
    ),
    "left": lambda d: (
        f"A {_strength(d.told_before)} dependence of the label on Z was found, and matching does "
        "not remove it."
    ),
}


def _strength(told: float) -> str:
    return "strong" if told > 0.2 else "moderate" if told > 0.05 else "weak"
