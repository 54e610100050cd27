"""Theorem 3.3: is Z recovered, up to an affine map, from enough environments and only then?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

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
from equipoise.theory.freedoms import Swirl
from equipoise.theory.records import Record
from equipoise.theory.recovery import (
    affine_r2,
    average_within,
    match_distance,
    mean_correlation,
    score_distance,
    worst_direction_r2,
)
from equipoise.theory.scm import SyntheticSample, SyntheticSCM
from equipoise.theory.twins import ObservationalTwin

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PRIORS = {1: "gaussian-fixed-variance", 2: "gaussian"}
FEATURE_NOISE = 0.1
HIDDEN = (64, 64)


@dataclass(frozen=True)
class IdentificationCase:
    """One model to fit to one synthetic world.

    `networks` is "one" for all labels, "per-label", or "plain" for a VAE that is told neither
    label nor environment.
    """

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


def list_cases(seeds: range, *, quick: bool = False) -> list[IdentificationCase]:
    """The cases of the experiment, all of one seed before the next.

    nk + 1 is 6 for k = 1 and 11 for k = 2. Twelve environments are enough for every label on
    its own; three with several labels are enough only when pairs are counted. With a network
    for each label, nothing aligns the labels' z with each other.
    """
    cases = [
        IdentificationCase("12 environments, k = 1", "enough", 1, 2, 12),
        IdentificationCase("12 environments, k = 2", "enough", 2, 2, 12),
        IdentificationCase("plain VAE, k = 1", "control", 1, 2, 12, networks="plain"),
        IdentificationCase("plain VAE, k = 2", "control", 2, 2, 12, networks="plain"),
        IdentificationCase("5 pairs, k = 1", "control", 1, 5, 1),
        IdentificationCase("10 pairs, k = 2", "control", 2, 10, 1),
        IdentificationCase("L singular, k = 1", "control", 1, 2, 12, rank=2),
        IdentificationCase("6 pairs, one network, k = 1", "pairs", 1, 2, 3),
        IdentificationCase(
            "6 pairs, a network each, k = 1", "pairs", 1, 2, 3, "per-label", "per-label"
        ),
        IdentificationCase("12 pairs, one network, k = 2", "pairs", 2, 4, 3),
        IdentificationCase(
            "12 pairs, a network each, k = 2", "pairs", 2, 4, 3, "per-label", "per-label"
        ),
        IdentificationCase(
            "12 environments, a network each", "unaligned", 1, 2, 12, "per-label", "per-label"
        ),
    ]
    if quick:
        chosen = (0, 2, 4, 7)
        cases = [replace(cases[i], n_train=6_000, n_test=2_000, steps=300) for i in chosen]
    return [replace(case, seed=seed) for seed in seeds for case in cases]


def make_scm(case: IdentificationCase) -> SyntheticSCM:
    """The world of a case. Squares make k = 2 harder, so its mixing bends less."""
    spreads = (2.0, 0.7) if case.statistics == 1 else (1.0, 1.0)
    return SyntheticSCM(
        n_latents=case.n_latents,
        n_labels=case.n_labels,
        n_environments=case.n_environments,
        statistics=case.statistics,
        slope=0.2 if case.statistics == 1 else 0.3,
        mechanism=case.mechanism,
        environment_spread=spreads[0],
        label_spread=spreads[1],
        rank=case.rank,
        seed=case.seed,
    )


def fit_case(case: IdentificationCase, sample: SyntheticSample) -> LatentCovariateModel:
    """Fit the model of a case to a sample of its world; n and k are the true ones."""
    plain = case.networks == "plain"
    m, n_environments = (1, 1) if plain else (case.n_labels, case.n_environments)
    labels = np.zeros_like(sample.labels) if plain else sample.labels
    environments = np.zeros_like(sample.environments) if plain else sample.environments
    n_features = sample.x.shape[1]
    networks: dict[str, Any] = {
        "hidden": HIDDEN,
        "per_label": case.networks == "per-label",
        "feature_noise": FEATURE_NOISE,
    }
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(case.seed)
        warnings.simplefilter("ignore")  # that nk + 1 pairs are missing is what controls are for
        model = LatentCovariateModel(
            (n_features,),
            m,
            n_environments,
            latent_dim=case.n_latents,
            prior=PRIORS[case.statistics],
            encoder=ResidualEncoder(n_features, m, n_environments, case.n_latents, **networks),
            decoder=ResidualDecoder(n_features, m, case.n_latents, **networks),
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
    labels, environments = test.labels, test.environments
    if case.networks == "plain":
        labels, environments = np.zeros_like(labels), np.zeros_like(environments)
    source = ArraySource(torch.from_numpy(test.x).float())
    y, e = torch.from_numpy(labels), torch.from_numpy(environments)
    found = model.encode(source.x, y, e)[0].double().numpy()
    twin = ObservationalTwin(scm, seed=case.seed)
    other = twin.to_twin(test.z, test.labels)
    record: Record = {
        "pairs": case.n_labels * case.n_environments,
        "condition_holds": scm.identifiability().holds,
        **_compare(scm, test.z, found, test.labels, ""),
        "r2_one_map": affine_r2(
            scm.sufficient_statistics(test.z), scm.sufficient_statistics(found)
        ),
        "r2_of_x": average_within(
            affine_r2, scm.sufficient_statistics(test.z), test.x, test.labels
        ),
        "mcc": average_within(mean_correlation, test.z, found, test.labels),
        "score_distance_twin": score_distance(
            test.log_propensity, twin.log_propensity(other, test.environments)
        ),
        "score_distance_constant": score_distance(
            test.log_propensity, np.full_like(test.log_propensity, -np.log(case.n_labels))
        ),
    }
    if case.networks == "plain":
        turned = _turn_freely(model, found, case.seed)
        nothing = {"score_distance": None, "match_loss": None, "r2_truth": None}
        return {**record, **_compare(scm, test.z, turned, test.labels, "_twin"), **nothing}
    scores = log_scores(model, source, test.labels, test.environments, score="observed")
    return {
        **record,
        **_compare(scm, other, found, test.labels, "_twin"),
        "r2_truth": _compare(scm, other, test.z, test.labels, "")["r2"],
        "score_distance": score_distance(test.log_propensity, scores),
        "match_loss": _match_loss(test, scores),
    }


def _compare(
    scm: SyntheticSCM, truth: Floats, found: Floats, labels: Ints, suffix: str
) -> dict[str, float]:
    """Affine R² of T(truth) from T(found) within labels: over all columns, and at the worst."""
    statistics = scm.sufficient_statistics(truth), scm.sufficient_statistics(found)
    return {
        f"r2{suffix}": average_within(affine_r2, *statistics, labels),
        f"worst{suffix}": average_within(worst_direction_r2, *statistics, labels),
    }


def _turn_freely(model: LatentCovariateModel, found: Floats, seed: int) -> Floats:
    """Another Z that a plain VAE explains x with as well: turned where its own prior is round."""
    own = {name: value.double().numpy()[0] for name, value in model.prior.state_dict().items()}
    means = own["mean"]  # [1, n]
    log_variances = own.get("log_variance", np.zeros_like(means))
    return Swirl(means, log_variances, np.random.default_rng(seed)).apply(found)


def _match_loss(test: SyntheticSample, scores: Floats) -> float:
    """How much farther apart, in the true score, learned matches are than the best ones."""
    groups = test.labels, test.environments
    best = match_distance(test.log_propensity, test.log_propensity, *groups)
    return match_distance(test.log_propensity, scores, *groups) - best
