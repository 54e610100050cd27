"""`equipoise theory identifiability`: Theorem 3.3, its controls, and the question of pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from equipoise.theory.identification import list_cases, measure_recovery
from equipoise.theory.outcome import Outcome
from equipoise.theory.records import Record, run_cases

SEEDS = 5
RECOVERED = 0.9  # affine R² within labels
SCORED = 0.1  # total variation of the score
COLOURS = {"enough": "#1b7837", "control": "#999999", "pairs": "#2166ac"}


def run_identifiability(
    output: str | Path,
    *,
    seed: int = 0,
    quick: bool = False,
    n_jobs: int = 1,
    verbose: bool = True,
) -> Outcome:
    """Fit every case for five seeds (one if quick); interrupted, the same call goes on."""
    output = Path(output)
    cases = list_cases(range(seed, seed + (1 if quick else SEEDS)), quick=quick)
    records = run_cases(
        cases,
        measure_recovery,
        output / "records.jsonl",
        description="fitting Z",
        n_jobs=n_jobs,
        verbose=verbose,
    )
    table = tabulate_recovery(records)
    holds, sentence = describe_recovery(table)
    outcome = Outcome(
        "identifiability", {"recovery of Z": table}, draw_recovery(records), sentence, holds
    )
    outcome.save(output)
    return outcome


def tabulate_recovery(records: list[Record]) -> pd.DataFrame:
    """A row for every case: medians over seeds, and the quartiles of R²."""
    frame = pd.DataFrame([{**record, **record["case"]} for record in records])
    rows = []
    for name, group in frame.groupby("name", sort=False):
        low, middle, high = np.quantile(group["r2"], [0.25, 0.5, 0.75])
        median = group.median(numeric_only=True)
        rows.append(
            {
                "case": name,
                "role": group["role"].iloc[0],
                "pairs": int(group["pairs"].iloc[0]),
                "condition (3)": bool(group["condition_holds"].all()),
                "R²": middle,
                "quartiles": f"{low:.3f}–{high:.3f}",
                "R² of a twin": median["r2_twin"],
                "R² one map": median["r2_one_map"],
                "R² of x": median["r2_of_x"],
                "MCC": median["mcc"] if group["statistics"].iloc[0] == 2 else None,
                "score TV": median.get("score_distance"),
                "TV of a twin": median["score_distance_twin"],
                "match loss": median.get("match_loss"),
            }
        )
    return pd.DataFrame(rows)


def describe_recovery(table: pd.DataFrame) -> tuple[bool, str]:
    """Whether enough environments recover Z and its score while controls do not; in words."""
    worst = table[["R²", "R² of a twin"]].min(axis=1)
    enough, control, pairs = (table["role"] == role for role in ("enough", "control", "pairs"))
    least = float(worst[enough].min())
    largest = float(table.loc[enough, "score TV"].max())
    best_control = float(worst[control].max())
    holds = least >= RECOVERED and largest <= SCORED and best_control < least
    words = (
        f"With enough environments for every label the model recovers Z up to an affine map: "
        f"R² {least:.3f} or more, the score within a total variation of {largest:.3f}. "
        f"Of the controls the best reaches {best_control:.3f} against the truth or its twin."
    )
    if pairs.any():
        found = table[pairs & table["case"].str.contains("pairs")]
        words += (
            f" Counting pairs does not suffice: there R² is {_range(found['R²'])} against the "
            f"truth, by the smoothness of networks, but {_range(found['R² of a twin'])} against "
            "a twin that explains the same data exactly as well."
        )
        twins_agree = float(found["R² of a twin"].min()) >= RECOVERED
        if twins_agree:
            words = words[: words.index(" Counting pairs")] + " No twin of the pairs was found."
    return holds, words if holds else f"Not as promised. {words}"


def draw_recovery(records: list[Record]) -> Figure:
    """R² of every seed against the truth (filled) and against a twin (open)."""
    names = list(dict.fromkeys(record["case"]["name"] for record in records))
    figure = Figure(figsize=(8.5, 0.38 * len(names) + 1.4), layout="constrained")
    axes = figure.subplots()
    for record in records:
        place = names.index(record["case"]["name"])
        colour = COLOURS[record["case"]["role"]]
        axes.plot(record["r2"], place - 0.12, "o", color=colour, ms=5)
        axes.plot(record["r2_twin"], place + 0.16, "o", color=colour, ms=5, mfc="white")
    axes.axvline(RECOVERED, color="black", lw=0.8, ls=":")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(min(0.0, axes.get_xlim()[0]), 1.02)
    axes.set_xlabel("affine R² within a label, held out (filled: the true Z, open: a twin's Z)")
    axes.set_title("Is Z recovered?")
    return figure


def _range(values: pd.Series) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"
