"""`equipoise theory identifiability`: Theorem 3.3, its controls, and the question of pairs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from equipoise.theory.identification import list_cases, measure_recovery
from equipoise.theory.outcome import NOT_AS_PROMISED, Outcome, mark_quick
from equipoise.theory.records import Record, run_cases

SEEDS = 5
RECOVERED = 0.9  # affine R² within labels
SCORED = 0.1  # total variation of the score
CLEARLY = 0.2  # by how much, in the worst direction, controls must stay behind
COLOURS = {"enough": "#1b7837", "control": "#999999", "pairs": "#2166ac", "unaligned": "#b2182b"}


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
    z, scores = tabulate_recovery(records), tabulate_scores(records)
    holds, sentence = describe_recovery(z, scores)
    sentence = mark_quick(sentence) if quick else sentence
    tables = {"recovery of Z": z, "recovery of the score": scores}
    outcome = Outcome("identifiability", tables, draw_recovery(records), sentence, holds)
    outcome.save(output)
    return outcome


def tabulate_recovery(records: list[Record]) -> pd.DataFrame:
    """A row for every case: affine R² within labels, medians over seeds and quartiles.

    A twin explains the same data with another Z; "twin by truth" is what the true Z has of the
    twin's, 1 where there is no other; x is what x itself tells by a straight line; MCC is of
    components, which only k = 2 tells apart.
    """
    return pd.DataFrame(
        {
            "case": name,
            "role": group["role"].iloc[0],
            "pairs": int(group["pairs"].iloc[0]),
            "(3) holds": bool(group["condition_holds"].all()),
            "R²": group["r2"].median(),
            "quartiles": _show_quartiles(group["r2"]),
            "worst direction": group["worst"].median(),
            "twin": group["r2_twin"].median(),
            "twin, worst": group["worst_twin"].median(),
            "twin by truth": group["r2_truth"].median(),
            "x": group["r2_of_x"].median(),
            "MCC": group["mcc"].median() if group["statistics"].iloc[0] == 2 else None,
        }
        for name, group in _group_by_case(records)
    )


def tabulate_scores(records: list[Record]) -> pd.DataFrame:
    """A row for every case with a score: total variation to the true one, and what it costs."""
    return pd.DataFrame(
        {
            "case": name,
            "role": group["role"].iloc[0],
            "TV": group["score_distance"].median(),
            "quartiles": _show_quartiles(group["score_distance"]),
            "TV of a constant": group["score_distance_constant"].median(),
            "TV of a twin": group["score_distance_twin"].median(),
            "loss of matches": group["match_loss"].median(),
        }
        for name, group in _group_by_case(records)
        if group["score_distance"].notna().all()
    )


def describe_recovery(z: pd.DataFrame, scores: pd.DataFrame) -> tuple[bool, str]:
    """Whether enough environments recover Z and its score while controls do not; in words.

    Controls are judged against the truth or a twin, whichever is less like what was found: the
    data cannot tell which of them is right.
    """
    either = z[["R²", "twin"]].min(axis=1)
    worst = z[["worst direction", "twin, worst"]].min(axis=1)
    enough, control = z["role"] == "enough", z["role"] == "control"
    least, least_worst = float(either[enough].min()), float(worst[enough].min())
    best_control = float(worst[control].max())
    largest = float(scores.loc[scores["role"] == "enough", "TV"].max())
    holds = least >= RECOVERED and largest <= SCORED and best_control < least_worst - CLEARLY
    words = (
        f"With enough environments for every label the model recovers Z up to an affine map: "
        f"R² {least:.3f} or more, {least_worst:.3f} in the worst direction, and the score within "
        f"a total variation of {largest:.3f}. Where the condition fails the data allow another Z, "
        f"and no fit can be right about both: the controls have {_show_range(z['R²'][control])} of "
        f"the truth ({_show_range(z['worst direction'][control])} in the worst direction), by the "
        f"smoothness of networks, and {_show_range(z['twin'][control])} "
        f"({_show_range(z['twin, worst'][control])}) of a twin that explains the same data."
    )
    words += _describe_pairs(z, worst) + _describe_alignment(z, scores)
    return holds, words if holds else NOT_AS_PROMISED + words


def _describe_pairs(z: pd.DataFrame, worst: pd.Series) -> str:
    """Whether the paper's count of pairs sufficed."""
    pairs = z["role"] == "pairs"
    if not pairs.any():
        return ""
    if float(z["twin by truth"][pairs].min()) >= RECOVERED:
        return " Where only pairs are counted, no twin was found."
    return (
        f" Counting pairs does not suffice: condition (3) holds, and still the data allow a twin. "
        f"The fit has {_show_range(z['R²'][pairs])} of the truth "
        f"({_show_range(z['worst direction'][pairs])}) and {_show_range(z['twin'][pairs])} of the "
        f"twin ({_show_range(z['twin, worst'][pairs])})."
    )


def _describe_alignment(z: pd.DataFrame, scores: pd.DataFrame) -> str:
    """What a network for every label does to the score, even with enough environments."""
    apart = scores["role"] == "unaligned"
    if not apart.any():
        return ""
    r2 = z.loc[z["role"] == "unaligned", "R²"]
    return (
        f" Nor do environments align the labels with each other: with a network for each, "
        f"Z is recovered within labels (R² {_show_range(r2)}) but the score is "
        f"{_show_range(scores['TV'][apart])} off, as a twin's is "
        f"({_show_range(scores['TV of a twin'][apart])}). What aligns them is the network they "
        "share."
    )


def draw_recovery(records: list[Record]) -> Figure:
    """R² of every seed, over all of T(z) and in the worst direction: true Z filled, twin's open."""
    names = list(dict.fromkeys(record["case"]["name"] for record in records))
    figure = Figure(figsize=(11, 0.36 * len(names) + 1.5), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, measure in zip(both, ("r2", "worst"), strict=True):
        for record in records:
            place = names.index(record["case"]["name"])
            colour = COLOURS[record["case"]["role"]]
            axes.plot(record[measure], place - 0.14, "o", color=colour, ms=5)
            axes.plot(record[f"{measure}_twin"], place + 0.14, "o", color=colour, ms=5, mfc="white")
        axes.axvline(RECOVERED, color="black", lw=0.8, ls=":")
        axes.set_xlim(min(-0.02, axes.get_xlim()[0]), 1.02)
        axes.grid(axis="y", lw=0.4, color="#dddddd")
    both[0].set_yticks(range(len(names)), names)
    both[0].invert_yaxis()
    both[0].set_title("Is Z recovered?")
    both[1].set_title("Every direction of it?")
    both[0].set_xlabel("affine R² within a label, held out")
    both[1].set_xlabel("the same in the worst direction (open: against a twin's Z)")
    return figure


def _group_by_case(records: list[Record]) -> Iterator[tuple[str, pd.DataFrame]]:
    frame = pd.DataFrame([{**record, **record["case"]} for record in records])
    for name, group in frame.groupby("name", sort=False):
        yield str(name), group


def _show_quartiles(values: pd.Series) -> str:
    low, high = values.quantile([0.25, 0.75])
    return f"{low:.3f}–{high:.3f}"


def _show_range(values: pd.Series) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"
