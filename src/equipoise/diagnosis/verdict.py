"""The verdict: what was seen, whether to balance, what that costs and saves, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.diagnosis.evidence import Evidence
from equipoise.diagnosis.price import Bargain
from equipoise.diagnosis.words import (
    count_found,
    list_names,
    write_about,
    write_p,
    write_points,
    write_share,
)

#: A protection is clear from this many points, less two standard errors; a price is small up to
#: the second number of points, with its standard error.
CLEAR, CHEAP = 2.0, 1.5
#: A protection that may exceed this many points is not called absent.
SIZEABLE = 5.0
#: Less than this many points is no harm.
HARM = 0.5
#: What gains less than this part of the price where the link is gone may be content.
PART = 1 / 3
#: Below this share of the label's entropy, or of what it was, next to nothing is predicted.
NOTHING, LITTLE = 0.02, 0.1
#: An effective sample size below this share of the examples is named.
FEW = 0.1
#: p-value of the tests that a verdict makes: what is left, and whether the link itself differs.
LEVEL = 0.05
WHEN = ("before", "after")
SHOWN = "A linear model cannot use squares or products: balancing costs and saves it less."

NOTHING_FOUND, REMOVED, REDUCED, LEFT = "nothing found", "removed", "reduced", "left"
CONTENT, NOT_TESTED = "found, but it may be the label's own content", "not tested"
BALANCE, TRADE_OFF, LEAVE, CANNOT_TELL = "balance", "trade-off", "leave as it is", "cannot tell"


@dataclass(frozen=True)
class Verdict:
    """What a reader takes away.

    Attributes
    ----------
    recommendation : str
        "balance", "trade-off", "leave as it is" or "cannot tell".
    state : str
        One of the constants from `NOTHING_FOUND` to `NOT_TESTED`.
    headline : str
        The recommendation and its reason in a sentence.
    findings, advice : tuple of str
        What it rests on, and what to do next.
    price, price_error : float
        Points of accuracy lost where the link stays as it is; NaN when not measured.
    protection, protection_error : float
        Points of accuracy gained where the link is reversed; NaN when not measured.
    """

    recommendation: str
    state: str
    headline: str
    findings: tuple[str, ...]
    advice: tuple[str, ...]
    price: float = math.nan
    price_error: float = math.nan
    protection: float = math.nan
    protection_error: float = math.nan

    def __str__(self) -> str:
        return "\n".join([self.headline, *self.findings, *self.advice])


def decide_verdict(evidence: Evidence) -> Verdict:
    """Weigh the evidence and say it in words."""
    state = choose_state(evidence)
    recommendation, headline = recommend(evidence)
    bargain = evidence.bargain
    numbers = {}
    if bargain is not None and not evidence.nothing_found:
        names = ("price", "price_error", "protection", "protection_error")
        numbers = {name: getattr(bargain, name) for name in names}
    return Verdict(
        recommendation,
        state,
        headline,
        tuple(_list_findings(evidence)),
        tuple(_list_advice(recommendation, state, evidence)),
        **numbers,
    )


def choose_state(evidence: Evidence) -> str:
    """What became of the link; "removed" only if the joint test finds nothing left."""
    if evidence.nothing_found:
        return NOTHING_FOUND if evidence.tested else NOT_TESTED
    if is_content(evidence) or (evidence.tested and gains_little(evidence.bargain)):
        return CONTENT
    before, after = evidence.predicted("before"), evidence.predicted("after")
    if evidence.left is None or math.isnan(after):
        return NOT_TESTED
    if evidence.left.p_value > LEVEL and after < max(NOTHING, LITTLE * before):
        return REMOVED
    return REDUCED if after < 0.5 * before else LEFT


def is_content(evidence: Evidence) -> bool:
    """Only the frequency of values is seen to differ between environments, not what they mean."""
    return evidence.tested and not evidence.nothing_found and evidence.same_link > LEVEL


def gains_little(bargain: Bargain | None) -> bool:
    """Balancing surely costs accuracy, and gains none or little where the link is gone.

    What showing rare labels as often as others costs says nothing about content.
    """
    b = bargain
    if b is None or b.even_gain > 2 * b.even_gain_error:
        return False
    price = b.price if math.isnan(b.kept_price) else min(b.price, b.kept_price)
    if price - 2 * b.price_error <= CHEAP:
        return False
    return b.even_gain + 2 * b.even_gain_error < max(CLEAR, PART * b.price)


def recommend(evidence: Evidence) -> tuple[str, str]:
    """The recommendation and the headline that gives its reason."""
    if evidence.nothing_found:
        return _recommend_nothing(evidence)
    if is_content(evidence):
        return LEAVE, (
            "Leave as it is: what was found may be the label's own content, since it was not seen "
            "to predict the label differently in any environment."
        )
    b = evidence.bargain
    if b is None:
        return CANNOT_TELL, (
            "Cannot tell: price and protection are measured on the examples themselves, which "
            "were not given."
        )
    clear = b.protection - 2 * b.protection_error > CLEAR or (
        b.even_gain - 2 * b.even_gain_error > 0 and b.protection > CLEAR
    )
    most = b.protection + 2 * b.protection_error
    if gains_little(evidence.bargain):
        return LEAVE, (
            "Leave as it is: what varies may be the label's own content. Balancing costs "
            f"{write_about(b.price)} where the link stays as it is, and gains little where it is "
            "gone."
        )
    if not clear and most > SIZEABLE:
        if b.price > 2 * b.price_error and b.left_out > 2 * b.left_out_error:
            return LEAVE, (
                f"Leave as it is: balancing costs {write_about(b.left_out)} in an environment left "
                "out of training. Whether it gains where the link reverses is uncertain: accuracy "
                f"changes by {write_points(b.protection, b.protection_error)}."
            )
        return CANNOT_TELL, (
            "Cannot tell: where the link reverses, balancing changes accuracy by "
            f"{write_points(b.protection, b.protection_error)}, too uncertain to decide."
        )
    if not clear:
        reason = "a link varies, but " if evidence.tested and evidence.varying else ""
        helps = "does harm even" if most < -HARM else "hardly helps"
        return LEAVE, (
            f"Leave as it is: {reason}balancing {helps} where the link reverses: accuracy changes "
            f"by {write_points(b.protection, b.protection_error)}."
        )
    saves = f"saves {write_about(b.protection)} where it reverses."
    cost = "costs nothing" if b.price < 0.5 else f"costs {write_about(b.price)}"
    cheap = b.price + b.price_error <= CHEAP
    elsewhere = math.isnan(b.left_out) or b.left_out + b.left_out_error <= CHEAP
    if (evidence.tested or evidence.given) and elsewhere and cheap:
        return BALANCE, f"Balance: it {cost} where the link stays as it is and {saves}"
    where = "where the link stays as it is"
    if b.price < 0.5 and not cheap:
        cost = f"may cost {write_about(b.price + 2 * b.price_error)}"
    elif b.price < 0.5 and not elsewhere:
        cost, where = (
            f"may cost {write_about(b.left_out + 2 * b.left_out_error)}",
            "in a new environment",
        )
        saves = f"saves {write_about(b.protection)} where the link reverses."
    return TRADE_OFF, f"Trade-off: balancing {cost} {where} and {saves}"


def _recommend_nothing(evidence: Evidence) -> tuple[str, str]:
    if not evidence.tested:
        return CANNOT_TELL, (
            "Cannot tell: whether a link varies shows only where two environments share two labels."
        )
    if evidence.rows < evidence.rows_needed:
        return CANNOT_TELL, (
            f"Cannot tell: {evidence.rows:,} rows are too few to find a moderate link that varies; "
            f"about {evidence.rows_needed:,} would do."
        )
    return LEAVE, ("Leave as it is: no link with the label was found to vary between environments.")


def _list_findings(evidence: Evidence) -> list[str]:
    found = _tell_varying(evidence)
    if not evidence.nothing_found:
        before, after = evidence.predicted("before"), evidence.predicted("after")
        worse = ": balancing made it worse" if after > max(NOTHING, before) else ""
        found.append(
            f"What is balanced predicts {write_share(before)} of the label's entropy; under the "
            f"balanced weights, {write_share(after)}{worse}."
        )
        found += _tell_left(evidence)
        found += _tell_bargain(evidence.bargain)
        found += [SHOWN] if evidence.shown else []
    found += _tell_covariates(evidence.information)
    if evidence.left_out:
        found.append(
            f"Balanced batches never show {evidence.left_out:,} of {evidence.rows:,} examples, "
            "which have no match or weight."
        )
    if evidence.alone:
        found.append(
            f"One label alone occurs in {list_names(evidence.alone)}: nothing there can be "
            "balanced, and balanced batches leave it out."
        )
    if evidence.effective < FEW:
        rare = f" Few examples have the label {list_names(evidence.rare)}." if evidence.rare else ""
        found.append(
            "A few examples carry most of the balanced weight: it is worth "
            f"{write_share(evidence.effective)} of the examples.{rare}"
        )
    for name in evidence.leaks:
        found.append(f"Column {name} gives the label away in every environment.")
    for name in evidence.markers:
        found.append(
            f"Column {name} tells the environments apart: a new environment may have values that "
            "no model has seen."
        )
    return found


def _tell_varying(evidence: Evidence) -> list[str]:
    varying = evidence.varying
    if varying is None:
        what = "the covariates that were given" if evidence.given else "all of Z"
        return [f"Balanced on {what}: whether the link with the label varies was not tested."]
    if math.isnan(varying.p_value):
        return []
    chance = f"joint test at level 0.01, p {write_p(varying.p_value)}"
    if not len(varying):
        even = "in the given covariates" if evidence.given else "in nothing else"
        return [
            f"No link with the label was found to vary between environments ({chance}). Balanced "
            f"batches are then even in the labels of each environment, and {even}."
        ]
    names, what = evidence.sources, count_found(varying.named)
    if names:
        listed, of = list_names(names), f"{what} of " if varying.pairs else ""
        what = f"{what} (most like {listed})" if "direction" in varying.named else of + listed
    return [
        f"The link of {what} with the label varies between environments ({chance}). That alone "
        "does not show that it is spurious."
    ]


def _tell_left(evidence: Evidence) -> list[str]:
    found = []
    if is_content(evidence):
        found.append(
            "Given what was found, no difference between environments was seen in how likely each "
            f"label is (p {write_p(evidence.same_link)}): its values may differ in frequency alone."
        )
    if evidence.left is not None:
        p = write_p(evidence.left.p_value)
        if evidence.left.p_value > LEVEL:
            text = f"no link is seen to vary any more (joint test of all features, p {p})."
        else:
            text = f"a link still varies (joint test of all features, p {p})."
        found.append(f"Under the balanced weights {text}")
    return found


def _tell_bargain(b: Bargain | None) -> list[str]:
    if b is None:
        return []
    found = []
    for situation, row in b.situations.iterrows():
        where = {
            "as they are": "Where things stay as they are",
            "even": "Where the link is gone",
            "reversed": "Where the link is reversed",
        }[str(situation)]
        found.append(
            f"{where}, small classifiers are right on {row.plain:.0f}\u00a0% of held-out examples "
            f"after plain training and on {row.balanced:.0f}\u00a0% after balanced training."
        )
    row = b.situations.loc["reversed"]
    if row.balanced - row.balanced_error < row.one_label:
        found.append(
            f"Naming one label for all would be right on {row.one_label:.0f}\u00a0% there: "
            "what balancing leaves predicts little."
        )
    if not math.isnan(b.kept_price):
        found.append(
            "Balanced batches show all labels alike. Weights that keep the labels' frequencies "
            f"would change accuracy by {write_points(-b.kept_price, b.kept_price_error)} where "
            "things stay as they are, and by "
            f"{write_points(b.kept_protection, b.kept_protection_error)} where the link reverses."
        )
    if not math.isnan(b.left_out):
        found.append(
            "In an environment left out of training, balancing changes accuracy by "
            f"{write_points(-b.left_out, b.left_out_error)}."
        )
    return found


def _tell_covariates(information: pd.DataFrame) -> list[str]:
    """A sentence on each covariate that the user named."""
    named = information[information["kind"].isin(["given", "known"])]
    named = named.assign(**{w: named[w] / named["label_entropy"].clip(1e-12) for w in WHEN})
    return [
        f"{str(row.kind).capitalize()} covariate {row.variable} predicts {write_share(row.before)} "
        f"of the label's entropy; under the balanced weights, {write_share(row.after)}."
        for row in named[named["environment"] == POOLED].itertuples()
    ]


def _list_advice(recommendation: str, state: str, evidence: Evidence) -> list[str]:
    """What to do; for each there is a test in which doing it helps."""
    advice = []
    if evidence.leaks:
        advice.append(
            f"Drop {list_names(evidence.leaks)} unless known before the label is: a model may "
            "learn nothing else."
        )
    if recommendation == BALANCE:
        advice.append("Train on balanced batches (batch_sampler), or with weights_.")
    elif recommendation == TRADE_OFF:
        b = evidence.bargain
        weak = b is not None and b.even_gain > 2 * b.even_gain_error
        advice.append(
            f"Train on balanced batches if the link may {'weaken or ' if weak else ''}reverse "
            "where the model will be used, and on random ones if it will stay."
        )
    elif recommendation == LEAVE:
        advice.append("Train on random batches.")
    elif evidence.nothing_found and evidence.tested:
        advice.append(
            f"Collect about {evidence.rows_needed:,} rows and fit again, or name the covariates "
            "that you suspect (covariates=…)."
        )
    elif evidence.bargain is not None:
        b = evidence.bargain
        if b.price + b.price_error <= CHEAP and b.protection > 0:
            advice.append("Prefer balanced batches if the link may reverse: they cost little here.")
        else:
            advice.append("Train on random batches until more examples decide.")
    b = evidence.bargain
    if b is not None and b.kept_protection - 2 * b.kept_protection_error > CLEAR:
        advice.append(
            "If the link may reverse, train with weights_ times the label's frequency in its "
            "environment: rare labels then stay rare."
        )
    a = evidence.n_matches
    if state in (REDUCED, LEFT) and a is not None and a < evidence.n_labels - 1:
        advice.append(
            f"Take more matches: n_matches={evidence.n_labels - 1} instead of {a} matches every "
            "anchor with every other label."
        )
    if evidence.rare and evidence.effective < FEW:
        advice.append(
            f"Drop {list_names(evidence.rare)}, or merge with another label: too few examples."
        )
    if evidence.left_out > 0.5 * evidence.rows and recommendation in (BALANCE, TRADE_OFF):
        advice.append(
            "Widen caliper or common_support: examples without a match are lost, not balanced."
        )
    return advice
