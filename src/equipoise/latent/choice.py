"""Choosing n, k and the prior family from data: what explains held-out x and can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data import Source
from equipoise.latent.fitting import FitSettings, fit_model
from equipoise.latent.model import LatentCovariateModel, choose_latent_dim
from equipoise.latent.priors import PriorFamily, get_prior

Ints = NDArray[np.int64]

AUTO = "auto"
SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
NEAR = 0.1  # nats of held-out ELBO that are not worth another dimension
LARGEST_CONDITION = 100.0  # of a label's L: beyond, some direction hardly varies


@dataclass(frozen=True)
class LatentCandidate:
    """One (prior, n) that was fitted, and how it did."""

    prior: str
    latent_dim: int
    statistics: int
    negative_elbo: float  # of the held-out part, per example in nats; less is better
    pairs_hold: bool  # condition (3) of Theorem 3.3, counting (label, environment) pairs
    labels_hold: bool  # the same within every label on its own, well conditioned
    condition: float  # of the worst label's L; inf if it has not full rank


@dataclass(frozen=True)
class LatentChoice:
    """What `choose_latent` took, among what, and why in words."""

    prior: str
    latent_dim: int
    candidates: tuple[LatentCandidate, ...]
    sentence: str

    @property
    def table(self) -> pd.DataFrame:
        """A row for every candidate; the chosen one is marked."""
        rows = [asdict(candidate) for candidate in self.candidates]
        chosen = [(c.prior, c.latent_dim) == (self.prior, self.latent_dim) for c in self.candidates]
        return pd.DataFrame(rows).assign(chosen=chosen)

    def to_facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> LatentChoice:
        candidates = tuple(LatentCandidate(**row) for row in facts["candidates"])
        return cls(**{**facts, "candidates": candidates})


def list_candidates(
    input_shape: tuple[int, ...],
    n_labels: int,
    n_environments: int,
    *,
    latent_dim: int | str | None,
    prior: str,
) -> list[tuple[str, int]]:
    """The (prior, n) to compare: those that environments can tell, and the paper's n beside them.

    Within a label |E| environments tell at most (|E| − 1) / k dimensions apart; between that and
    the paper's n halves are tried. What is not "auto" is taken as given.

    >>> list_candidates((8,), 2, 4, latent_dim="auto", prior="gaussian-fixed-variance")
    [('gaussian-fixed-variance', 1), ('gaussian-fixed-variance', 2), \
('gaussian-fixed-variance', 3), ('gaussian-fixed-variance', 7)]
    """
    names = sorted(PriorFamily.families) if prior == AUTO else [prior]
    found = []
    for name in names:
        k = get_prior(name).statistics_per_dimension
        largest = choose_latent_dim(n_labels, n_environments, k, input_shape)
        if latent_dim is None:
            sizes: Sequence[int] = [largest]
        elif latent_dim == AUTO:
            told = min((n_environments - 1) // k, largest)
            halves = {largest, largest // 2, largest // 4}
            sizes = sorted(({n for n in SIZES if n <= told} | {told} | halves) - {0})
        else:
            sizes = [int(latent_dim)]
        found += [(name, n) for n in sizes]
    return found


def choose_latent(
    source: Source,
    labels: Ints,
    environments: Ints,
    *,
    latent_dim: int | str | None = AUTO,
    prior: str = AUTO,
    hidden: tuple[int, ...] | None = None,
    settings: FitSettings | None = None,
    device: str = "cpu",
    checkpoint: str | Path | None = None,
    verbose: bool = False,
) -> tuple[LatentChoice, LatentCovariateModel]:
    """Fit every candidate; of those that explain held-out x well, keep one that data can tell.

    Candidates far from the best held-out ELBO are put aside (`NEAR`): Z must have room for what
    varies. Of the others those whose Z is told within every label come first, then those for
    which the paper's count of pairs holds; the smallest n is taken.
    """
    settings = settings or FitSettings()
    shape = tuple(source.fetch(np.zeros(1, dtype=np.int64)).shape[1:])
    m, n_environments = int(labels.max()) + 1, int(environments.max()) + 1
    candidates: list[LatentCandidate] = []
    models: list[LatentCovariateModel] = []
    for name, n in list_candidates(shape, m, n_environments, latent_dim=latent_dim, prior=prior):
        model = LatentCovariateModel(
            shape, m, n_environments, latent_dim=n, prior=name, hidden=hidden, seed=settings.seed
        ).to(device)
        own = None if checkpoint is None else Path(f"{checkpoint}.{name}-{n}")
        history = fit_model(
            model, source, labels, environments, settings=settings, checkpoint=own, verbose=verbose
        )
        condition = max(found.condition for found in model.identifiability_within_labels())
        candidates.append(
            LatentCandidate(
                name,
                n,
                model.prior.statistics_per_dimension,
                negative_elbo=min(history.negative_elbo),
                pairs_hold=model.identifiability().holds,
                labels_hold=condition <= LARGEST_CONDITION,
                condition=condition,
            )
        )
        models.append(model)
    best = _pick(candidates)
    taken = candidates[best]
    sentence = _explain(candidates, taken, n_environments)
    return LatentChoice(taken.prior, taken.latent_dim, tuple(candidates), sentence), models[best]


def _pick(candidates: Sequence[LatentCandidate]) -> int:
    losses = np.array([candidate.negative_elbo for candidate in candidates])
    if not np.isfinite(losses).any():
        raise ValueError("no candidate could be fitted: every held-out ELBO is infinite or NaN")
    near = np.flatnonzero(losses <= np.nanmin(losses) + NEAR).tolist()

    def rank(i: int) -> tuple[bool, bool, int, int]:
        taken = candidates[i]
        return not taken.labels_hold, not taken.pairs_hold, taken.latent_dim, taken.statistics

    return min(near, key=rank)


def _explain(
    candidates: Sequence[LatentCandidate], taken: LatentCandidate, n_environments: int
) -> str:
    what = f"n = {taken.latent_dim} with prior {taken.prior} (k = {taken.statistics})"
    near = f"within {NEAR:g} nats of the best (−ELBO {taken.negative_elbo:.2f})"
    explains = f"it explains held-out examples {near}"
    if taken.labels_hold:
        why = (
            f"was chosen: {explains}, and the {n_environments} environments tell every direction "
            f"of Z within every label (condition {taken.condition:.3g})"
        )
    elif taken.pairs_hold:
        why = (
            f"was chosen with reserve: {explains}, but {n_environments} environments do not tell "
            "its Z within every label, only the count of (label, environment) pairs suffices; "
            "what the data leave open, the smoothness of the network decides"
        )
    else:
        why = (
            f"was chosen for want of better: {explains}, but neither within labels nor over pairs "
            f"do the {n_environments} environments tell its directions apart"
        )
    told = [candidate for candidate in candidates if candidate.labels_hold]
    if told and not taken.labels_hold:  # what the environments could tell instead
        best = min(told, key=lambda candidate: candidate.negative_elbo)
        why += (
            f"; n = {best.latent_dim} with k = {best.statistics} would be told, but explains less "
            f"(−ELBO {best.negative_elbo:.2f})"
        )
    return f"{what} {why}."
