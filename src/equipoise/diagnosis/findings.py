"""The sentences of a verdict that say what was found."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.dependence_of_z import WEAK, Dependence
from equipoise.diagnosis.gain import LARGE, SMALL, Gain
from equipoise.diagnosis.left_out import LeftOut
from equipoise.diagnosis.missed import MissedFeature


def tell_before(d: Dependence) -> str:
    """How labels and z stood to each other in the data."""
    if math.isnan(d.told_before):
        return (
            f"Before: two labels differ in Z by {d.before:.2f} standard deviations on average. The "
            "environments have too few examples to say what it tells about the label."
        )
    return (
        f"Before: Z tells {percent(d.told_before)} of what there is to know about the label, and "
        f"two labels differ in it by {d.before:.2f} standard deviations on average."
    )


def tell_after(d: Dependence, level: str) -> str:
    """How they do in balanced batches, and what to make of the rest."""
    aside = f"below {THRESHOLD:g} is balanced"
    if d.chance > 0.5 * THRESHOLD:
        aside += f"; so few effective examples leave {d.chance:.2f} by chance alone"
    if math.isnan(d.told_after):
        return (
            f"After: {d.after:.2f} standard deviations ({aside}). Too few examples are left to say "
            "what Z tells about the label."
        )
    text = f"After: {percent(d.told_after)}, and {d.after:.2f} standard deviations ({aside})."
    if abs(d.told - d.told_before) >= 0.01:
        text += f" Of what is left, Z told {percent(d.told)} before."
    if level == "removed" and d.known_is_gone and d.told_after > WEAK:
        text += (
            " As what is known of Z tells nothing any more, the rest is likely the label's own "
            "content in it."
        )
    if level == "nothing to gain" and d.is_steady and not d.is_weak and not d.is_removed:
        text += " What is left looks like the label's own content in Z rather than a covariate" + (
            f": on average two labels share only {percent(d.overlap)} of their scores."
            if d.overlap < 0.5
            else "."
        )
    return text


def tell_left_out(left_out: LeftOut) -> list[str]:
    """How much of the data balanced batches never show, and which environments are gone."""
    if not left_out.examples:
        return []
    text = (
        f"Left out: {left_out.examples:,} of {left_out.of:,} examples "
        f"({percent(left_out.share)}) have no match and never appear in balanced batches."
    )
    if len(left_out.gone):
        text += f" Nothing is left of {_list_environments(left_out.gone)}."
    if len(left_out.few):
        text += f" Too little to judge by is left of {_list_environments(left_out.few)}."
    return [text]


def _list_environments(rows: pd.DataFrame, at_most: int = 4) -> str:
    named = [
        f"environment {row.environment}"
        + ("" if math.isnan(row.before) else f" (Z told {_share(row.before, row)} of the label)")
        for row in rows.head(at_most).itertuples()
    ]
    more = f" and {len(rows) - at_most} more" if len(rows) > at_most else ""
    return ", ".join(named) + more


def tell_strength(d: Dependence, strength: pd.DataFrame) -> list[str]:
    """Whether z goes with the label alike in every environment, and what that speaks for."""
    if d.variation is None or d.is_weak:
        return []
    least, most = percent(strength["told"].min()), percent(strength["told"].max())
    if d.is_steady:
        return [
            f"Between environments: Z tells {least} to {most} of the label, about as much in one "
            "as in another. So does the label's own content; what is spurious would change."
        ]
    if not d.variation.is_seen:
        return [
            f"Between environments: Z tells {least} to {most} of the label. So few examples do "
            "not say whether that changes, as what is spurious does, or stays the same, as the "
            "label's own content does."
        ]
    return [
        f"Between environments: Z tells {least} of the label in one and {most} in another. What "
        "is spurious changes like that; the label's own content would not."
    ]


def tell_known(information: pd.DataFrame) -> list[str]:
    """A sentence on each covariate that the user knows."""
    known = information[(information["kind"] == "known") & (information["environment"] == POOLED)]
    return [
        f"Known covariate {row.variable}: it told {_share(row.before, row)} of the label before, "
        f"and tells {_share(row.after, row)} after."
        for row in known.itertuples()
    ]


def _share(told: float, row: Any) -> str:
    return percent(told / max(row.label_entropy, 1e-12))


def find_evened(worst: pd.DataFrame) -> pd.DataFrame:
    """Mean |SMD| of each feature within environments, before and after, largest drop first."""
    within = worst[(worst["kind"] == "feature") & (worst["environment"] != POOLED)]
    within = within[within["mean_smd_after"].notna()]  # what is left out is not evened out
    means = within.groupby("covariate", observed=True, sort=False)[
        ["mean_smd_before", "mean_smd_after"]
    ].mean()
    means.columns = ["before", "after"]
    drop = (means["before"] - means["after"]).sort_values(ascending=False, kind="stable")
    return means.loc[drop.index].reset_index()


def tell_features(evened: pd.DataFrame) -> list[str]:
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


def tell_missed(missed: tuple[MissedFeature, ...]) -> list[str]:
    """Columns that behave as what is spurious does, and were not evened out."""
    return [
        f"Between environments {feature.name} tells {percent(feature.least)} of the label in one "
        f"and {percent(feature.most)} in another, as what is spurious does; in balanced batches "
        f"the labels still differ in it by {feature.after:.2f} standard deviations."
        for feature in missed[:3]
    ]


def _list_features(rows: pd.DataFrame, at_most: int = 4) -> str:
    named = [
        f"{row.covariate} ({row.before:.2f} → {row.after:.2f} SD)"
        for row in rows.head(at_most).itertuples()
    ]
    more = f" and {len(rows) - at_most} more" if len(rows) > at_most else ""
    return ", ".join(named) + more


def tell_gain(gain: Gain, level: str) -> str:
    """What a small classifier loses without the dependence and gains by balanced training."""
    text = (
        f"A small classifier is right on {percent(gain.plain)} of held-out examples as they are. "
        f"Where the label does not depend on Z, it is right on {percent(gain.plain_balanced)}; "
        f"trained on balanced batches, on {percent(gain.balanced)} "
        f"(a gain of {100 * gain.gain:.1f} ± {100 * gain.error:.1f} points)."
    )
    if level == "nothing to gain" and SMALL <= gain.gain < LARGE:
        text += " A few points are no evidence: it was trained as it was tested."
    return text


def percent(share: float) -> str:
    """A share as people write it.

    >>> percent(0.047)
    '4.7\\xa0%'
    """
    if math.isnan(share):
        return "an unknown share"
    hundredths = 100 * max(0.0, share)  # a no-break space: a line must not begin with the sign
    digits = 0 if hundredths >= 10 or hundredths == 0 else 1
    return f"{hundredths:.{digits}f}\u00a0%"
