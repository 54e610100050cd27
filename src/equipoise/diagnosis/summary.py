"""A page a person can read: the diagnosis as text, ending in the verdict."""

from __future__ import annotations

import math
import textwrap

import pandas as pd

from equipoise.balance.groups import POOLED
from equipoise.balance.weights import effective_sample_size
from equipoise.diagnosis.covariates import THRESHOLD
from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.diagnosis.words import write_p

WIDTH = 78
ROWS = 8


def summarise_balance(diagnostics: BalanceDiagnostics) -> str:
    """The diagnosis as plain text of at most 78 columns."""
    d = diagnostics
    matches = f"{d.n_matches} match{'' if d.n_matches == 1 else 'es'} for each anchor ({d.metric})"
    blocks = [
        f"Balance of {d.n_examples:,} examples, {len(d.label_names)} labels, "
        f"{len(d.environment_names)} environments\n"
        + (matches if d.n_matches is not None else "weights without matches"),
        _show_varying(d),
        _show_information(d.information),
        _show_differences(d.worst),
        _show_use(d),
        _show_situations(d.situations),
        "\n".join(textwrap.fill(f"Note: {note}.", WIDTH) for note in d.notes),
        _show_verdict(d),
    ]
    return "\n\n".join(block for block in blocks if block)


def _show_varying(d: BalanceDiagnostics) -> str:
    if d.varying.empty:
        return ""
    joint = d.varying.drop_duplicates("hypothesis").head(ROWS)
    tests = list(zip(joint["hypothesis"], joint["joint_p_value"], strict=True))
    tests += [] if d.left is None else [("under the balanced weights", d.left.p_value)]
    return "\n".join(
        [f"{'Does a link with the label vary?':<58}{'p-value':>18}"]
        + [f"  {_cut(str(name), 54):<56}{write_p(p).removeprefix('= '):>18}" for name, p in tests]
    )


def _show_situations(situations: pd.DataFrame | None) -> str:
    if situations is None:
        return ""
    lines = [f"{'Accuracy of small classifiers, in %':<44}{'plain':>14}{'balanced':>18}"]
    lines += [
        f"  {name!s:<42}{row.plain:>8.1f} ± {row.plain_error:<4.1f}"
        f"{row.balanced:>9.1f} ± {row.balanced_error:<4.1f}"
        for name, row in situations.iterrows()
    ]
    return "\n".join(lines)


def _show_information(information: pd.DataFrame) -> str:
    lines = [f"{'Information about the label, in nats':<44}{'before':>10}{'after':>10}"]
    pooled = information[information["environment"] == POOLED]
    whole = pooled[pooled["kind"] != "coordinate"]
    single = pooled[pooled["kind"] == "coordinate"].nlargest(3, "before")
    lines += [
        f"  {_cut(str(row.variable)):<42}{_write(row.before):>10}{_write(row.after):>10}"
        for row in pd.concat([whole, single]).itertuples()
    ]
    entropy = float(pooled["label_entropy"].iloc[0])
    lines.append(f"  {'(entropy of the label)':<42}{entropy:>10.3f}")
    return "\n".join(lines)


def _write(nats: float) -> str:
    return "not known" if math.isnan(nats) else f"{nats:.3f}"


def _show_differences(worst: pd.DataFrame) -> str:
    lines = [
        f"Standardised mean differences (below {THRESHOLD:g} is balanced)",
        f"  {'':<18}{'mean before':>12}{'after':>7}   {'worst pair before':<19}{'after':<17}",
    ]
    within = worst[worst["environment"] != POOLED]
    for kind, name in _KINDS.items():
        part = within[within["kind"] == kind]
        if part.empty or not (part[["smd_before", "smd_after"]] > 0.005).any(axis=None):
            continue
        before, after = (part.loc[part[f"smd_{when}"].idxmax()] for when in ("before", "after"))
        lines.append(
            f"  {name:<18}{part['mean_smd_before'].mean():>12.2f}"
            f"{part['mean_smd_after'].mean():>7.2f}   "
            f"{before.smd_before:<6.2f}{_cut(before.pair_before, 12):<13}"
            f"{after.smd_after:<6.2f}{_cut(after.pair_after, 12)}"
        )
    coordinates = within[within["kind"].isin(["given", "known", "feature", "z"])]
    listed = coordinates.groupby("covariate", observed=True, sort=False)[
        ["mean_smd_before", "mean_smd_after"]
    ].mean()
    for covariate, row in listed.nlargest(ROWS, "mean_smd_before").iterrows():
        lines.append(
            f"    {_cut(str(covariate), 17):<17}{row.mean_smd_before:>11.2f}"
            f"{row.mean_smd_after:>7.2f}"
        )
    return "\n".join(lines)


_KINDS = {
    "given": "given covariates",
    "known": "known covariates",
    "feature": "columns",
    "z": "z",
    "square": "squares of z",
    "product": "products of z",
    "score": "scores",
}


def _show_use(d: BalanceDiagnostics) -> str:
    use, effective = d.use, effective_sample_size(d.weights)
    if use.empty:
        return f"Effective sample size: {effective:,.0f} ({effective / d.n_examples:.1%})"
    examples = use["examples"].sum()
    pooled = d.distances[d.distances["environment"] == POOLED].set_index("quantile")
    overlap = d.overlap.loc[d.overlap["overlap_before"].idxmin()]
    lines = [
        "Matches",
        f"  examples used as a match        {use['ever_matched'].sum():,} of {examples:,}",
        f"  effective sample size           {effective:,.0f} ({effective / examples:.1%})",
        f"  most frequent example           {use['largest_weight'].max():,.0f} appearances for "
        "each time it is an anchor",
        f"  distance to the nearest         median {pooled.loc[0.5, 'nearest']:.3g}, "
        f"90 % within {pooled.loc[0.9, 'nearest']:.3g}",
        f"  anchors without a match         {use['anchors_without'].sum():,}",
        f"  least overlap of two labels     {overlap.overlap_before:.1%}: {overlap['first']} and "
        f"{overlap['second']}, environment {overlap.environment}",
    ]
    return "\n".join(lines)


def _show_verdict(d: BalanceDiagnostics) -> str:
    verdict = d.verdict
    lines = ["Verdict", _fill(verdict.headline, "  ")]
    lines += [_fill(finding, "  · ") for finding in verdict.findings]
    lines += ["What to do"] if verdict.advice else []
    return "\n".join(lines + [_fill(advice, "  · ") for advice in verdict.advice])


def _fill(text: str, lead: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _cut(text: str, width: int = 40) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
