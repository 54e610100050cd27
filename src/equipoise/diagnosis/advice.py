"""The sentences of a verdict that say what to do."""

from __future__ import annotations

import pandas as pd

from equipoise.diagnosis.balance_table import THRESHOLD
from equipoise.diagnosis.findings import percent
from equipoise.diagnosis.left_out import LeftOut
from equipoise.diagnosis.missed import MissedFeature


def advise_left_out(left_out: LeftOut) -> list[str]:
    """What to do where half of the examples, or an environment, have no match."""
    if not left_out.is_much:
        return []
    return [
        "Loosen common_support or the caliper, if you set one: what has no match is not balanced, "
        "it is gone. An environment with one label only has no matches at all."
    ]


def advise_latent(latent_dim: int, n_environments: int) -> list[str]:
    """A smaller z, and more environments to tell it apart by."""
    advice = []
    if latent_dim > 1:
        advice.append(
            f"Try a smaller latent size (latent_dim, now {latent_dim}; 'auto' tries some): the "
            "less room z has, the less of the label's own content it takes in."
        )
    advice.append(
        f"Add environments if you can (there are {n_environments}): the more differently Z goes "
        "with the label in them, the better it can be told apart."
    )
    return advice


def advise_missed(missed: tuple[MissedFeature, ...], latent_dim: int, n_features: int) -> list[str]:
    """Room for what Z missed: what goes closely with the label varies little besides it."""
    if not missed:
        return []
    names = ", ".join(feature.name for feature in missed[:3])
    wider = f"latent_dim={n_features}, now {latent_dim}; " if latent_dim < n_features else ""
    return [
        f"Do not train on these batches yet. A column that goes closely with the label varies "
        f"little besides it, and a small Z leaves it out first. Give Z more room ({wider}"
        f"or another random_state) until {names} is evened out, or drop the column."
    ]


def advise_matches(by_n_matches: pd.DataFrame, n_matches: int, n_labels: int) -> list[str]:
    """More matches, where there are more labels to match with."""
    if n_matches >= n_labels - 1:
        return []
    best = by_n_matches.iloc[-1]
    return [
        f"Take more matches: n_matches={int(best.n_matches)} instead of {n_matches} would leave "
        f"{best.mean_smd:.2f} standard deviations."
    ]


def advise_caliper(by_caliper: pd.DataFrame) -> list[str]:
    """The widest caliper that lowers the difference by a quarter and keeps half of the matches."""
    if len(by_caliper) < 2:
        return []
    without = by_caliper.iloc[0]
    if without.mean_smd < THRESHOLD:
        return []
    worthwhile = by_caliper[
        (by_caliper["mean_smd"] < 0.75 * without.mean_smd) & (by_caliper["matched"] >= 0.5)
    ]
    if worthwhile.empty:
        return []
    best = worthwhile.iloc[0]
    return [
        f"Try a caliper: caliper={best.caliper:.3g} keeps {percent(best.matched)} of the matches "
        f"and would leave {best.mean_smd:.2f} standard deviations instead of "
        f"{without.mean_smd:.2f}."
    ]


def advise_overlap(overlap: pd.DataFrame) -> list[str]:
    """Labels that share next to no scores cannot be matched."""
    worst = overlap.loc[overlap["overlap_before"].idxmin()]
    if worst.overlap_before >= 0.05:
        return []
    apart = int((overlap["overlap_before"] < 0.05).sum())
    more = "" if apart == 1 else f" (and {apart - 1} more pairs)"
    return [
        f"Labels {worst['first']} and {worst['second']} share only "
        f"{percent(worst.overlap_before)} of their scores in environment {worst.environment}"
        f"{more}: there is next to nothing to match them with. Collect examples there, or leave "
        "those without a counterpart out of balanced batches (common_support=True)."
    ]


def advise_size(use: pd.DataFrame) -> list[str]:
    """What to do where few examples carry most of the weight."""
    share = float(use["effective_size"].sum() / use["examples"].sum())
    if share >= 0.1:
        return []
    return [
        f"Balanced batches carry as much as {percent(share)} of the examples would: augment, "
        "regularise and stop early, or spread the load with a larger n_nearest or a reuse_max."
    ]
