"""`equipoise theory balance`: Theorems 3.6 and 3.7, counted in batches."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import combine_pvalues

from equipoise.theory.balanced_batches import (
    MATCHINGS,
    BalanceCase,
    examine_ties,
    measure_balance,
)
from equipoise.theory.balancing_scores import BalancingScore, examine_functions
from equipoise.theory.outcome import NOT_AS_PROMISED, Outcome, mark_quick
from equipoise.theory.records import Record, run_cases

LABELS = (2, 5, 10)
LEAST_P = 1e-3  # of all exact cases together
COLOURS = dict(zip(MATCHINGS, ("#1b7837", "#7fbf7b", "#2166ac"), strict=True))


def list_balance_cases(seed: int, *, quick: bool) -> list[BalanceCase]:
    """Every a for m = 2, 5, 10 with exact matches; learned scores for the first, middle, last."""
    cases = []
    for m in (2, 5) if quick else LABELS:
        for matching in MATCHINGS:
            learned = matching == "learned score"
            every = sorted({1, m // 2, m - 1}) if learned else range(1, m)
            for a in every:
                size = 8_000 if quick else 20_000
                steps = (150 if quick else 600) if learned else 0
                cases.append(BalanceCase(m, a, matching, size, 1 if learned else 4, steps, seed))
    return cases


def run_balance(
    output: str | Path,
    *,
    seed: int = 0,
    quick: bool = False,
    n_jobs: int = 1,
    verbose: bool = True,
) -> Outcome:
    """Count labels in batches against the formula, and match on finer and coarser functions."""
    output = Path(output)
    records = run_cases(
        list_balance_cases(seed, quick=quick),
        measure_balance,
        output / "records.jsonl",
        description="counting batches",
        n_jobs=n_jobs,
        verbose=verbose,
    )
    size = 2_000 if quick else 6_000
    scores, ties = examine_functions(size, seed=seed), examine_ties(size, seed=seed)
    shares, functions = tabulate_shares(records), tabulate_functions(scores)
    holds, sentence = describe_balance(records, functions)
    sentence = mark_quick(sentence) if quick else sentence
    tables = {
        "labels in batches": shares,
        "values of Z that share a score": tabulate_ties(ties),
        "balancing scores": functions,
    }
    outcome = Outcome("balance", tables, draw_balance(records), sentence, holds)
    outcome.save(output)
    return outcome


def tabulate_shares(records: list[Record]) -> pd.DataFrame:
    """A row for every case: the gap to the formula, beside that of random batches."""
    rows = [
        {
            "m": record["case"]["n_labels"],
            "a": record["case"]["n_matches"],
            "matched on": record["case"]["matching"],
            "mean gap": record["gap"],
            "largest gap": record["largest_gap"],
            "of random batches": record["gap_of_random_batches"],
            "p-value": record["p_value"] if record["case"]["matching"] != MATCHINGS[2] else None,
        }
        for record in records
    ]
    return pd.DataFrame(rows)


def tabulate_functions(scores: list[BalancingScore]) -> pd.DataFrame:
    """A row for every function b(Z): what it leaves of the dependence of Y and Z, in nats."""
    functions = pd.DataFrame([asdict(score) for score in scores])
    functions.columns = ["b(Z)", "finer", "I(Y;Z|b)", "I(Y;Z) in batches", "I(Y;Z) before"]
    return functions


def tabulate_ties(ties: list[Record]) -> pd.DataFrame:
    """A row for each way to choose among equally near matches: largest gaps to one half."""
    table = pd.DataFrame(ties)
    table.columns = ["match", "largest gap given Z", "given s(Z)"]
    return table


def describe_balance(records: list[Record], functions: pd.DataFrame) -> tuple[bool, str]:
    """Whether exact matches follow the formula and exactly the finer functions balance."""
    exact = [r for r in records if r["case"]["matching"] != MATCHINGS[2]]
    tested = [r["p_value"] for r in exact if r["p_value"] is not None]
    together = float(combine_pvalues(tested).pvalue)
    full = max(r["largest_gap"] for r in exact if r["p_value"] is None)
    learned = [r for r in records if r["case"]["matching"] == MATCHINGS[2]]
    share = np.mean([r["gap"] / r["gap_of_random_batches"] for r in learned])
    finer = functions[functions["finer"]]
    coarser = functions[~functions["finer"]]
    left = finer["I(Y;Z) in batches"].max() / functions["I(Y;Z) before"].iloc[0]
    kept = coarser["I(Y;Z) in batches"].min() / functions["I(Y;Z) before"].iloc[0]
    holds = bool(together > LEAST_P and full < 1e-9 and left < 0.05 < kept)
    words = (
        f"With exact matches the labels of batches follow Theorem 3.7 within sampling error for "
        f"every m and a (p = {together:.2f} of all {len(tested)} together; at a = m − 1 "
        f"the largest gap is {full:.0g}). Learned scores leave {share:.0%} of the gap of "
        f"random batches. Functions finer than s(Z) leave at most {left:.1%} of I(Y;Z) in batches, "
        f"coarser ones at least {kept:.0%}, as Theorem 3.6 says."
    )
    return holds, words if holds else NOT_AS_PROMISED + words


def draw_balance(records: list[Record]) -> Figure:
    """The mean gap to the formula over a, for each m; grey are random batches."""
    labels = sorted({record["case"]["n_labels"] for record in records})
    figure = Figure(figsize=(3.4 * len(labels) + 1, 3.4), layout="constrained")
    panels = figure.subplots(1, len(labels), squeeze=False, sharey=True)[0]
    for axes, m in zip(panels, labels, strict=True):
        for matching in MATCHINGS:
            own = [
                r
                for r in records
                if (r["case"]["n_labels"], r["case"]["matching"]) == (m, matching)
            ]
            a = [r["case"]["n_matches"] for r in own]
            style = "o-" if matching == MATCHINGS[0] else "s--"
            axes.plot(a, [r["gap"] for r in own], style, color=COLOURS[matching], label=matching)
            if matching == MATCHINGS[0]:
                before = [r["gap_of_random_batches"] for r in own]
                axes.plot(a, before, "x:", color="#999999", label="random batches")
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_ylim(-1e-4, 0.3)
        axes.axhline(0.0, color="black", lw=0.5)
        axes.set_xticks(range(1, m))
        axes.set_title(f"m = {m}")
        axes.set_xlabel("matches a")
    first = figure.axes[0]
    first.set_ylabel("|p̂(Y|Z,E) − formula|, mean")
    first.legend(fontsize=8, title="matched on", loc="center right", bbox_to_anchor=(1.0, 0.4))
    return figure
