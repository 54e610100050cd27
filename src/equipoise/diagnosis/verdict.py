"""The diagnosis in words: what was spurious, how much is left, what to do."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from equipoise.diagnosis.advice import (
    advise_caliper,
    advise_latent,
    advise_left_out,
    advise_matches,
    advise_missed,
    advise_overlap,
    advise_size,
)
from equipoise.diagnosis.dependence_of_z import Dependence
from equipoise.diagnosis.findings import (
    percent,
    tell_after,
    tell_before,
    tell_features,
    tell_gain,
    tell_known,
    tell_left_out,
    tell_missed,
    tell_strength,
)
from equipoise.diagnosis.gain import LARGE, SMALL, Gain
from equipoise.diagnosis.left_out import LeftOut, find_left_out
from equipoise.diagnosis.missed import MissedFeature

#: A loss known less well than this is not called small.
UNSURE = 0.05


@dataclass(frozen=True)
class Verdict:
    """What a reader takes away.

    level: "nothing to gain", "removed", "reduced" or "left", from good news to bad, or "not known"
    where there are too few examples to say.
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
    strength: pd.DataFrame,
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
    missed: tuple[MissedFeature, ...] = (),
) -> Verdict:
    """Weigh the numbers and say it in words."""
    level, left_out = _choose_level(dependence, gain), find_left_out(information)
    if missed and level in ("nothing to gain", "removed"):
        level = "left"  # whatever became of this Z, it is not all of what is spurious
    findings = [tell_before(dependence), tell_after(dependence, level)]
    findings += tell_left_out(left_out)
    findings += tell_strength(dependence, strength)
    findings += tell_known(information)
    if level != "not known":
        findings += tell_features(evened)
    findings += tell_missed(missed)
    if gain is not None:
        findings.append(tell_gain(gain, level))
    advice: list[str] = []
    if level != "nothing to gain":
        if dependence.is_steady:
            advice.append(_DOUBT)
        advice += advise_left_out(left_out)
        advice += advise_missed(missed, latent_dim, len(evened))
        if level in ("reduced", "left") and not missed:
            advice += advise_matches(by_n_matches, n_matches, n_labels)
            if not left_out.is_much:  # else to leave out more would contradict
                advice += advise_caliper(by_caliper)
                advice += advise_overlap(overlap)
            advice += advise_latent(latent_dim, n_environments)
        advice += advise_size(use)
        if level == "removed" and gain is not None and gain.sees and gain.gain < SMALL:
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
    headline = _write_headline(level, dependence, gain, left_out)
    if missed:
        headline = (
            f"Z has missed something that looks spurious: {missed[0].name} still differs between "
            "the labels."
        )
    return Verdict(level, headline, tuple(findings), tuple(advice))


_DOUBT = (
    "Nothing shows this Z to be spurious rather than the label's own content, as it goes with the "
    "label alike in every environment. Look at what it is (in the report: what z carries) before "
    "you even it out."
)


def _choose_level(dependence: Dependence, gain: Gain | None) -> str:
    if dependence.is_weak or _promises_little(dependence, gain):
        return "nothing to gain"
    if not dependence.is_known:
        return "not known"
    if dependence.is_removed:
        return "removed"
    return "reduced" if dependence.is_reduced else "left"


def _promises_little(dependence: Dependence, gain: Gain | None) -> bool:
    """Steady Z counts as content unless the gain is large; other Z, if it costs nothing.

    Z that is seen to vary asks for surely nothing, Z of which it is not known for next to nothing.
    A classifier that sees hardly anything besides Z could not tell, nor could one whose gain is
    not known. And where a plain one owes much to a Z that varies, or is evened out now, one that
    gains nothing has only not found what else to look at.
    """
    if gain is None or not gain.sees or gain.error >= UNSURE:
        return False
    loses_little = gain.loss < LARGE
    if dependence.is_steady:
        return gain.gain < LARGE and (loses_little or not dependence.is_removed)
    margin = gain.error if dependence.varies else 0.0
    return gain.gain < SMALL - margin and loses_little


def _write_headline(
    level: str, dependence: Dependence, gain: Gain | None, left_out: LeftOut
) -> str:
    if level == "nothing to gain":
        why = _say_why(dependence, gain)
        return f"There is little to gain from balancing these data: {why}"
    if math.isnan(dependence.told_before):
        return "The environments have too few examples to say how the label depends on Z."
    found = f"A {_name_strength(dependence.told_before)} dependence of the label on Z was found"
    if level == "not known":
        return f"{found}; too few examples have a match to say what balanced batches leave of it."
    but = f"; {percent(left_out.share)} of the examples have no match and are left out"
    but = but if left_out.is_much else ""
    if level == "removed":
        all_or_most = "it" if dependence.is_all_gone else "most of it"
        return f"{found}, and balanced batches remove {all_or_most}{but}."
    if level == "reduced":
        return f"{found}; balanced batches reduce it, but some is left{but}."
    return f"{found}, and matching does not remove it{but}."


def _say_why(dependence: Dependence, gain: Gain | None) -> str:
    if dependence.is_weak:
        return "the labels hardly differ in Z."
    if gain is not None and gain.gain < SMALL:
        return "a classifier trained on balanced batches is no better for it."
    return "Z goes with the label alike in every environment, as the label's own content does."


def _name_strength(told: float) -> str:
    return "strong" if told > 0.2 else "moderate" if told > 0.05 else "weak"
