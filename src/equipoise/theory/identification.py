"""Theorem 3.3: is Z recovered, up to an affine map, from enough environments and only then?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from equipoise.data import ArraySource
from equipoise.latent import (
    FitSettings,
    LatentCovariateModel,
    ResidualDecoder,
    ResidualEncoder,
    fit_model,
    log_scores,
    start_from_components,
)
from equipoise.theory.outcome import Experiment, Judgement, Record
from equipoise.theory.scm import (
    Floats,
    Ints,
    SyntheticSample,
    SyntheticSCM,
    affine_r2,
    average_within,
    match_distance,
    mean_correlation,
    score_distance,
    worst_direction_r2,
)
from equipoise.theory.twins import ObservationalTwin, Swirl

PRIORS = {1: "gaussian-fixed-variance", 2: "gaussian"}
FEATURE_NOISE = 0.1
HIDDEN = (64, 64)
SEEDS = 5
RECOVERED = 0.9  # affine R² within labels
SCORED = 0.1  # total variation of the score
CLEARLY = 0.2  # by how much, in the worst direction, controls must stay behind
COLOURS = {"enough": "#1b7837", "control": "#999999", "pairs": "#2166ac", "unaligned": "#b2182b"}


@dataclass(frozen=True)
class IdentificationCase:
    """One model for one synthetic world; a "plain" VAE is told neither label nor environment."""

    name: str
    role: str  # "enough", "control", "pairs" or "unaligned"
    statistics: int
    n_labels: int
    n_environments: int
    mechanism: str = "shared"
    networks: str = "one"
    rank: int | None = None
    n_latents: int = 5
    n_train: int = 40_000
    n_test: int = 8_000
    steps: int = 4_000
    seed: int = 0

    def __str__(self) -> str:
        return f"{self.name}, seed {self.seed}"


def list_cases(seed: int, quick: bool) -> list[IdentificationCase]:
    """The cases of five seeds (one if quick), all of one seed before the next.

    nk + 1 is 6 for k = 1 and 11 for k = 2. Twelve environments are enough for every label on
    its own; three with several labels are enough only when pairs are counted. With a network
    for each label, nothing aligns the labels' z with each other.
    """
    own = "per-label", "per-label"  # mechanism and networks
    rows: list[tuple[Any, ...]] = [
        ("12 environments, k = 1", "enough", 1, 2, 12),
        ("12 environments, k = 2", "enough", 2, 2, 12),
        ("plain VAE, k = 1", "control", 1, 2, 12, "shared", "plain"),
        ("plain VAE, k = 2", "control", 2, 2, 12, "shared", "plain"),
        ("5 pairs, k = 1", "control", 1, 5, 1),
        ("10 pairs, k = 2", "control", 2, 10, 1),
        ("L singular, k = 1", "control", 1, 2, 12, "shared", "one", 2),
        ("6 pairs, one network, k = 1", "pairs", 1, 2, 3),
        ("6 pairs, a network each, k = 1", "pairs", 1, 2, 3, *own),
        ("12 pairs, one network, k = 2", "pairs", 2, 4, 3),
        ("12 pairs, a network each, k = 2", "pairs", 2, 4, 3, *own),
        ("12 environments, a network each", "unaligned", 1, 2, 12, *own),
    ]
    cases = [IdentificationCase(*row) for row in rows]
    if quick:
        chosen = (0, 2, 4, 7)
        cases = [replace(cases[i], n_train=6_000, n_test=2_000, steps=300) for i in chosen]
    seeds = range(seed, seed + (1 if quick else SEEDS))
    return [replace(case, seed=each) for each in seeds for case in cases]


def make_scm(case: IdentificationCase) -> SyntheticSCM:
    """The world of a case. Squares make k = 2 harder, so its mixing bends less."""
    sizes = ("n_latents", "n_labels", "n_environments", "statistics", "mechanism", "rank", "seed")
    own = {name: getattr(case, name) for name in sizes}
    slope, between, within = (0.2, 2.0, 0.7) if case.statistics == 1 else (0.3, 1.0, 1.0)
    return SyntheticSCM(**own, slope=slope, environment_spread=between, label_spread=within)


def fit_case(case: IdentificationCase, sample: SyntheticSample) -> LatentCovariateModel:
    """Fit the model of a case to a sample of its world; n and k are the true ones."""
    m, n_environments = case.n_labels, case.n_environments
    if case.networks == "plain":
        m, n_environments = 1, 1
    labels, environments = _tell(case, sample)
    n, n_features = case.n_latents, sample.x.shape[1]
    networks: dict[str, Any] = {"hidden": HIDDEN, "feature_noise": FEATURE_NOISE}
    networks["per_label"] = case.networks == "per-label"
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(case.seed)
        warnings.simplefilter("ignore")  # that nk + 1 pairs are missing is what controls are for
        model = LatentCovariateModel(
            (n_features,),
            m,
            n_environments,
            latent_dim=n,
            prior=PRIORS[case.statistics],
            encoder=ResidualEncoder(n_features, m, n_environments, n, **networks),
            decoder=ResidualDecoder(n_features, m, n, **networks),
        )
    x = torch.from_numpy(sample.x).float()
    start_from_components(model, x, torch.from_numpy(labels), torch.from_numpy(environments))
    settings = FitSettings(
        max_steps=case.steps,
        batch_size=max(8, 256 // n_environments),
        lr=3e-3,
        prior_lr=2e-2,
        warm_up=1,
        evaluate_every=max(1, case.steps // 4),
        feature_noise=FEATURE_NOISE,
        schedule="cosine",
        seed=case.seed,
    )
    fit_model(model, ArraySource(x), labels, environments, settings=settings)
    return model


@torch.no_grad()
def measure_recovery(case: IdentificationCase) -> Record:
    """Fit a case and compare what it found with the truth, on examples it has not seen.

    The twin explains the same data with another Z: what agrees with the truth but not with it
    was found by luck or by smoothness, not from the data. `r2_truth` is how far the true Z itself
    agrees with the twin's: below 1 no fit can be right about both.
    """
    scm = make_scm(case)
    with torch.enable_grad():
        model = fit_case(case, scm.sample(case.n_train, seed=case.seed))
    test = scm.sample(case.n_test, seed=case.seed + 10_000)
    labels, environments = _tell(case, test)
    source = ArraySource(torch.from_numpy(test.x).float())
    y, e = torch.from_numpy(labels), torch.from_numpy(environments)
    found = model.encode(source.x, y, e)[0].double().numpy()
    twin = ObservationalTwin(scm, seed=case.seed)
    other = twin.to_twin(test.z, test.labels)
    statistics, truth = scm.sufficient_statistics, test.log_propensity
    record: Record = {
        "pairs": case.n_labels * case.n_environments,
        "condition_holds": scm.identifiability().holds,
        **_compare(scm, test.z, found, test.labels, ""),
        "r2_one_map": affine_r2(statistics(test.z), statistics(found)),
        "r2_of_x": average_within(affine_r2, statistics(test.z), test.x, test.labels),
        "mcc": average_within(mean_correlation, test.z, found, test.labels),
        "score_distance_twin": score_distance(truth, twin.log_propensity(other, test.environments)),
        "score_distance_constant": score_distance(
            truth, np.full_like(truth, -np.log(case.n_labels))
        ),
    }
    if case.networks == "plain":
        # Another Z that it explains x with as well: turned where its own prior is round.
        own = {name: value.double().numpy()[0] for name, value in model.prior.state_dict().items()}
        log_variances = own.get("log_variance", np.zeros_like(own["mean"]))
        swirl = Swirl(own["mean"], log_variances, np.random.default_rng(case.seed))
        nothing = {"score_distance": None, "match_loss": None, "r2_truth": None}
        turned = _compare(scm, test.z, swirl.apply(found), test.labels, "_twin")
        return {**record, **turned, **nothing}
    scores = log_scores(model, source, test.labels, test.environments, reading="observed")
    best, used = (
        match_distance(truth, by, test.labels, test.environments) for by in (truth, scores)
    )
    return {
        **record,
        **_compare(scm, other, found, test.labels, "_twin"),
        "r2_truth": _compare(scm, other, test.z, test.labels, "")["r2"],
        "score_distance": score_distance(truth, scores),
        "match_loss": used - best,
    }


def _tell(case: IdentificationCase, sample: SyntheticSample) -> tuple[Ints, Ints]:
    """The labels and environments that the model of a case sees: a plain VAE sees none."""
    if case.networks == "plain":
        return np.zeros_like(sample.labels), np.zeros_like(sample.environments)
    return sample.labels, sample.environments


def _compare(
    scm: SyntheticSCM, truth: Floats, found: Floats, labels: Ints, suffix: str
) -> dict[str, float]:
    """Affine R² of T(truth) from T(found) within labels: over all columns, and at the worst."""
    both = scm.sufficient_statistics(truth), scm.sufficient_statistics(found)
    measures = {"r2": affine_r2, "worst": worst_direction_r2}
    return {n + suffix: average_within(measure, *both, labels) for n, measure in measures.items()}


# --- the experiment ----------------------------------------------------------------------------


def judge_recovery(records: pd.DataFrame, seed: int, quick: bool) -> Judgement:
    """Whether enough environments recover Z and its score while controls do not."""
    z, scores = tabulate_recovery(records), tabulate_scores(records)
    tables = {"recovery of Z": z, "recovery of the score": scores}
    return tables, draw_recovery(records), *describe_recovery(z, scores)


def tabulate_recovery(records: pd.DataFrame) -> pd.DataFrame:
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
        for name, group in records.groupby("name", sort=False)
    )


def tabulate_scores(records: pd.DataFrame) -> pd.DataFrame:
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
        for name, group in records.groupby("name", sort=False)
        if group["score_distance"].notna().all()
    )


def describe_recovery(z: pd.DataFrame, scores: pd.DataFrame) -> tuple[bool, str]:
    """The verdict in words; controls count by truth or twin, whichever is less like the fit."""

    def show(role: str, column: str, table: pd.DataFrame = z) -> str:
        values = table.loc[table["role"] == role, column]
        low, high = float(values.min()), float(values.max())
        return f"{low:.2f}" if round(low, 2) == round(high, 2) else f"{low:.2f} to {high:.2f}"

    roles = set(z["role"])
    either = z[["R²", "twin"]].min(axis=1)
    worst = z[["worst direction", "twin, worst"]].min(axis=1)
    enough, control = z["role"] == "enough", z["role"] == "control"
    least, least_worst = float(either[enough].min()), float(worst[enough].min())
    largest = float(scores.loc[scores["role"] == "enough", "TV"].max())
    apart = float(worst[control].max()) < least_worst - CLEARLY
    words = (
        f"With enough environments for every label, the model recovers Z up to an affine map: R² "
        f"is at least {least:.3f}, and {least_worst:.3f} in the worst direction. The score is "
        f"within a total variation of {largest:.3f}. Where the condition fails, the data "
        f"allow another Z, a twin, and no fit can agree with both. The controls have R² "
        f"{show('control', 'R²')} with the truth "
        f"({show('control', 'worst direction')} in the worst direction), "
        f"owing to the smoothness of networks. With a twin they have "
        f"{show('control', 'twin')} ({show('control', 'twin, worst')})."
    )
    if "pairs" in roles and z.loc[z["role"] == "pairs", "twin by truth"].min() >= RECOVERED:
        words += " Where only pairs are counted, no twin was found."
    elif "pairs" in roles:
        words += (
            f" Counting pairs does not suffice: condition (3) holds, yet the data allow a twin. "
            f"The fit has R² {show('pairs', 'R²')} with the truth "
            f"({show('pairs', 'worst direction')} in the worst direction) and "
            f"{show('pairs', 'twin')} with the twin ({show('pairs', 'twin, worst')})."
        )
    if "unaligned" in set(scores["role"]):
        words += (
            f" Environments do not align the labels with each other. With a network for each "
            f"label, Z is recovered within labels (R² {show('unaligned', 'R²')}), but the score "
            f"is off by {show('unaligned', 'TV', scores)}, as a twin's is "
            f"({show('unaligned', 'TV of a twin', scores)}). A shared network aligns them."
        )
    return least >= RECOVERED and largest <= SCORED and apart, words


def draw_recovery(records: pd.DataFrame) -> Figure:
    """R² of every seed, over all of T(z) and in the worst direction: true Z filled, twin's open."""
    names = list(records["name"].unique())
    figure = Figure(figsize=(11, 0.36 * len(names) + 1.5), layout="constrained")
    both = figure.subplots(1, 2, sharey=True)
    for axes, measure in zip(both, ("r2", "worst"), strict=True):
        for _, record in records.iterrows():
            place, colour = names.index(record["name"]), COLOURS[record["role"]]
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


def _show_quartiles(values: pd.Series) -> str:
    low, high = values.quantile([0.25, 0.75])
    return f"{low:.3f}–{high:.3f}"


IDENTIFIABILITY = Experiment("identifiability", list_cases, measure_recovery, judge_recovery)
