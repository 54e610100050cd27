"""A fitted balancer and its data, named as the user names them: what a report is about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.balance import Matches
from equipoise.balancer import CausalBalancer, Examined
from equipoise.data import Source
from equipoise.diagnosis import BalanceDiagnostics

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """What the sections of a report look at.

    `source` gives the examples, or is None where they are not at hand; `labels` and
    `environments` are their codes, `log_scores` [N, m] and `matches` what was made of them.
    """

    balancer: CausalBalancer
    source: Source | None
    labels: Ints
    environments: Ints
    log_scores: Floats
    matches: Matches
    label_names: tuple[str, ...]
    environment_names: tuple[str, ...]
    feature_names: tuple[str, ...]

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return self.balancer.latent_model_.settings.input_shape

    @property
    def examples(self) -> Source:
        """The examples themselves, for sections that show them."""
        if self.source is None:
            raise ValueError("the examples are not at hand: give those that were fitted as X")
        return self.source

    def take(self, rows: Ints) -> tuple[Source, Ints, Ints, Ints]:
        """Examples, rows and their codes, as the views of the model ask for them."""
        return self.examples, rows, self.labels[rows], self.environments[rows]

    def draw_rows(self, n_at_most: int, generator: np.random.Generator) -> Ints:
        """All rows, or so many at random, in order."""
        n = len(self.labels)
        if n <= n_at_most:
            return np.arange(n)
        return np.sort(generator.choice(n, n_at_most, replace=False))


def make_study(
    balancer: CausalBalancer,
    found: Examined,
    diagnostics: BalanceDiagnostics,
    *,
    feature_names: Sequence[str] | None = None,
) -> Study:
    """A balancer with the examples that were examined, and the names their diagnosis has."""
    return Study(
        balancer,
        found.source,
        found.labels,
        found.environments,
        found.log_scores,
        found.matches,
        diagnostics.label_names,
        diagnostics.environment_names,
        _name_features(balancer, feature_names or found.feature_names),
    )


def _name_features(balancer: CausalBalancer, names: Sequence[str] | None) -> tuple[str, ...]:
    """What the columns of a table are called, by number where nobody says."""
    n_features = math.prod(balancer.latent_model_.settings.input_shape)
    if names is None:
        return tuple(f"feature {i + 1}" for i in range(n_features))
    if len(names) != n_features:
        raise ValueError(
            f"feature_names has {len(names)} names, but an example has {n_features} features: "
            "give one name for each"
        )
    return tuple(str(name) for name in names)
