"""What a training is made of, from settings and data: algorithm, balancer, selection rules."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.algorithms import Algorithm, get_algorithm
from equipoise.algorithms.base import Featurizer
from equipoise.balancer import CausalBalancer
from equipoise.benchmark.run_data import RunData
from equipoise.benchmark.selection import SELECTIONS
from equipoise.benchmark.settings import RunSettings


def build_algorithm(
    settings: RunSettings, data: RunData, *, featurizer: Featurizer | None = None
) -> Algorithm:
    """The algorithm of the settings, for this data."""
    return make_algorithm(
        settings,
        data.dataset.input_shape,
        data.dataset.n_labels,
        len(data.training_environments),
        featurizer=featurizer,
    )


def make_algorithm(
    settings: RunSettings,
    input_shape: Sequence[int],
    n_labels: int,
    n_environments: int,
    *,
    featurizer: Featurizer | None = None,
) -> Algorithm:
    """The algorithm of the settings; a `featurizer` comes before the one they name."""
    return get_algorithm(settings.algorithm)(
        input_shape,
        n_labels,
        n_environments,
        featurizer=settings.featurizer if featurizer is None else featurizer,
        seed=settings.seed,
        **settings.hyperparameters,
    )


def choose_selections(settings: RunSettings, data: RunData) -> tuple[str, ...]:
    """The rules asked for; by default all that the data allow."""
    if settings.selections is not None:
        return settings.selections
    possible = {
        "balanced": len(data.training_environments) > 1,
        "test-domain": data.test_environment is not None,
    }
    return tuple(name for name in SELECTIONS if possible.get(name, True))


def needs_balancer(settings: RunSettings, data: RunData) -> bool:
    """Whether batches or a selection rule ask for balancing scores."""
    return settings.sampling == "balanced" or "balanced" in choose_selections(settings, data)


def make_balancer(settings: RunSettings, *, verbose: bool = False) -> CausalBalancer:
    """The balancer of the settings, not yet fitted."""
    return CausalBalancer(
        **{"random_state": settings.seed, "verbose": verbose, **settings.balancer}
    )


def fit_balancer(settings: RunSettings, data: RunData, *, verbose: bool = False) -> CausalBalancer:
    """Fit on the train parts of the training environments, all that training may see."""
    return make_balancer(settings, verbose=verbose).fit(data.train)
