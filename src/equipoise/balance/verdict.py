"""The diagnosis in words: what was spurious, how much is left, what to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from equipoise.balance.balance_table import THRESHOLD
from equipoise.balance.gain import Gain
from equipoise.balance.groups import POOLED

#: Below this share of the label's entropy a dependence is called weak.
WEAK = 0.02
#: Accuracy below which a gain is called small, and from which on a loss is called large.
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


@dataclass(frozen=True)
class Dependence:
    """The numbers a verdict rests on, of z within environments.

    before, after: mean |SMD| over coordinates and label pairs; chance: what perfect balance would
    leave with so few examples; told_before, told_after: what z tells about the label, as a share
    of the label's entropy; overlap: mean over label pairs; known_is_gone: what the user knows
    told something about the label before, and does no more.
    """

    before: float
    after: float
    worst_after: float
    chance: float
    told_before: float
    told_after: float
    overlap: float
    known_is_gone: bool = False

    @property
    def is_weak(self) -> bool:
        return self.told_before < WEAK and self.before < max(THRESHOLD, 1.5 * self.chance)

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
    table: pd.DataFrame, information: pd.DataFrame, overlap: pd.DataFrame, use: pd.DataFrame
) -> Dependence:
    """Boil the tables down to what the verdict needs."""
    z = table[(table["kind"] == "z") & (table["environment"] != POOLED)]
    told = information[(information["variable"] == "z") & (information["environment"] == POOLED)]
    entropy = max(float(told["label_entropy"].iloc[0]), 1e-12)
    return Dependence(
        before=float(z["smd_before"].mean()),
        after=float(z["smd_after"].mean()),
        worst_after=float(z["smd_after"].max()),
        chance=_differ_by_chance(use),
        told_before=min(1.0, float(told["before"].iloc[0]) / entropy),
        told_after=min(1.0, float(told["after"].iloc[0]) / entropy),
        overlap=float(overlap["overlap_before"].mean()),
        known_is_gone=_is_known_gone(information),
    )


def _is_known_gone(information: pd.DataFrame) -> bool:
    known = information[(information["kind"] == "known") & (information["environment"] == POOLED)]
    told = known[known["before"] > WEAK * known["label_entropy"]]
    return len(told) > 0 and bool((told["after"] < 0.1 * told["before"]).all())


def _differ_by_chance(use: pd.DataFrame) -> float:
    """Expected |SMD| of label means of nothing but noise, at the effective sizes there are."""
    found = []
    for _, part in use.groupby("environment", sort=False):
        variance = 1.0 / part["effective_size"].to_numpy()
        first, second = np.triu_indices(len(variance), k=1)
        found.append(np.sqrt(2 / np.pi * (variance[first] + variance[second])))
    together = np.concatenate(found) if found else np.zeros(1)
    return float(together.mean()) if together.size else 0.0


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
    findings = [_tell_before(dependence), _tell_after(dependence, level)]
    findings += _tell_known(information)
    findings += _tell_features(evened)
    if gain is not None:
        findings.append(_tell_gain(gain))
    advice: list[str] = []
    if level != "nothing to gain":
        if level != "removed":
            advice += _advise_matches(by_n_matches, n_matches, n_labels)
            advice += _advise_caliper(by_caliper)
            advice += _advise_overlap(overlap)
            if latent_dim > 1:
                advice.append(
                    f"Try a smaller latent size (latent_dim, now {latent_dim}; 'auto' tries "
                    "some): the less room z has, the less of the label's own content it takes in."
                )
            advice.append(
                f"Add environments if you can (there are {n_environments}): the more differently "
                "Z goes with the label in them, the better it can be told apart."
            )
        advice += _advise_size(use)
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
    return gain is not None and gain.error < UNSURE and gain.gain < max(SMALL, gain.error)


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


def _tell_before(d: Dependence) -> str:
    return (
        f"Before: Z tells {_percent(d.told_before)} of what there is to know about the label, and "
        f"two labels differ in it by {d.before:.2f} standard deviations on average."
    )


def _tell_after(d: Dependence, level: str) -> str:
    text = (
        f"After: {_percent(d.told_after)}, and {d.after:.2f} standard deviations "
        f"(below {THRESHOLD:g} is balanced"
    )
    if d.chance > 0.5 * THRESHOLD:
        text += f"; so few effective examples leave {d.chance:.2f} by chance alone"
    text += ")."
    if level == "removed" and d.known_is_gone and d.told_after > WEAK:
        text += (
            " As what is known of Z tells nothing any more, the rest is likely the label's own "
            "content in it."
        )
    if level == "nothing to gain" and not d.is_weak and not d.is_removed:
        text += " What is left looks like the label's own content in Z rather than a covariate" + (
            f": on average two labels share only {_percent(d.overlap)} of their scores."
            if d.overlap < 0.5
            else "."
        )
    return text


def _tell_known(information: pd.DataFrame) -> list[str]:
    known = information[(information["kind"] == "known") & (information["environment"] == POOLED)]
    return [
        f"Known covariate {row.variable}: it told {_percent(row.before / row.label_entropy)} of "
        f"the label before, and tells {_percent(row.after / row.label_entropy)} after."
        for row in known.itertuples()
    ]


def find_evened(worst: pd.DataFrame) -> pd.DataFrame:
    """Mean |SMD| of each feature within environments, before and after, largest drop first."""
    within = worst[(worst["kind"] == "feature") & (worst["environment"] != POOLED)]
    means = within.groupby("covariate", observed=True, sort=False)[
        ["mean_smd_before", "mean_smd_after"]
    ].mean()
    means.columns = ["before", "after"]
    drop = (means["before"] - means["after"]).sort_values(ascending=False, kind="stable")
    return means.loc[drop.index].reset_index()


def _tell_features(evened: pd.DataFrame) -> list[str]:
    """Name the columns of a table that balanced batches even out, and those they leave."""
    gone = evened[(evened["before"] > 0.25) & (evened["after"] < 0.5 * evened["before"])]
    left = evened[(evened["after"] > 0.25) & ~evened.index.isin(gone.index)]
    left = left.sort_values("after", ascending=False, kind="stable")
    told = []
    if len(gone):
        told.append(f"Evened out between the labels: {_list_features(gone)}.")
    if len(left):
        told.append(
            f"Still different, and so left for a model to learn from: {_list_features(left)}."
        )
    return told


def _list_features(rows: pd.DataFrame, at_most: int = 4) -> str:
    named = [
        f"{row.covariate} ({row.before:.2f} → {row.after:.2f} SD)"
        for row in rows.head(at_most).itertuples()
    ]
    more = f" and {len(rows) - at_most} more" if len(rows) > at_most else ""
    return ", ".join(named) + more


def _tell_gain(gain: Gain) -> str:
    return (
        f"A small classifier is right on {_percent(gain.plain)} of held-out examples as they are. "
        f"Where the label does not depend on Z, it is right on {_percent(gain.plain_balanced)}; "
        f"trained on balanced batches, on {_percent(gain.balanced)} "
        f"(a gain of {100 * gain.gain:.1f} ± {100 * gain.error:.1f} points)."
    )


def _advise_matches(by_n_matches: pd.DataFrame, n_matches: int, n_labels: int) -> list[str]:
    if n_matches >= n_labels - 1:
        return []
    best = by_n_matches.iloc[-1]
    return [
        f"Take more matches: n_matches={int(best.n_matches)} instead of {n_matches} would leave "
        f"{best.mean_smd:.2f} standard deviations."
    ]


def _advise_caliper(by_caliper: pd.DataFrame) -> list[str]:
    if len(by_caliper) < 2:
        return []
    without = by_caliper.iloc[0]
    worthwhile = by_caliper[
        (by_caliper["mean_smd"] < 0.75 * without.mean_smd) & (by_caliper["matched"] >= 0.5)
    ]
    if worthwhile.empty:
        return []
    best = worthwhile.iloc[0]
    return [
        f"Try a caliper: caliper={best.caliper:.3g} keeps {_percent(best.matched)} of the matches "
        f"and would leave {best.mean_smd:.2f} standard deviations instead of "
        f"{without.mean_smd:.2f}."
    ]


def _advise_overlap(overlap: pd.DataFrame) -> list[str]:
    worst = overlap.loc[overlap["overlap_before"].idxmin()]
    if worst.overlap_before >= 0.05:
        return []
    apart = int((overlap["overlap_before"] < 0.05).sum())
    more = "" if apart == 1 else f" (and {apart - 1} more pairs)"
    return [
        f"Labels {worst['first']} and {worst['second']} share only "
        f"{_percent(worst.overlap_before)} of their scores in environment {worst.environment}"
        f"{more}: there is next to nothing to match them with. Collect examples there, or leave "
        "the pair apart."
    ]


def _advise_size(use: pd.DataFrame) -> list[str]:
    share = float(use["effective_size"].sum() / use["examples"].sum())
    if share >= 0.1:
        return []
    return [
        f"Balanced batches carry as much as {_percent(share)} of the examples would: augment, "
        "regularise and stop early, or spread the load with a larger n_nearest or a reuse_max."
    ]


def _percent(share: float) -> str:
    percent = 100 * max(0.0, share)  # a no-break space: a line must not begin with the sign
    return f"{percent:.0f}\u00a0%" if percent >= 10 or percent == 0 else f"{percent:.1f}\u00a0%"
