"""What a training is made of, from settings and data: algorithm, balancer, selection rules."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.algorithms import Algorithm, Featurizer, get_algorithm
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
    lacking = {}
    if len(data.training_environments) < 2:
        lacking["balanced"] = "two training environments or more"
    if data.test_environment is None:
        lacking["test-domain"] = "a test environment"
    possible = tuple(name for name in SELECTIONS if name not in lacking)
    for name in settings.selections or ():
        if name in lacking:
            raise ValueError(
                f"selection rule {name!r} needs {lacking[name]}, which this run has not; possible "
                f"here: {', '.join(possible)}"
            )
    return settings.selections or possible


def needs_balancer(settings: RunSettings, data: RunData) -> bool:
    """Whether batches or a selection rule ask for balancing scores."""
    return settings.sampling == "balanced" or "balanced" in choose_selections(settings, data)


def make_balancer(
    settings: RunSettings, *, device: str = "cpu", verbose: bool = False
) -> CausalBalancer:
    """The balancer of the settings, not yet fitted; on the device of the run unless they say."""
    run = {"random_state": settings.seed, "device": device, "verbose": verbose}
    chosen = dict(settings.balancer)
    if isinstance(chosen.get("hidden"), list):  # JSON and YAML know no tuples
        chosen["hidden"] = tuple(chosen["hidden"])
    return CausalBalancer(**{**run, **chosen})


def fit_balancer(
    settings: RunSettings, data: RunData, *, device: str = "cpu", verbose: bool = False
) -> CausalBalancer:
    """Fit on the train parts of the training environments, all that training may see."""
    return make_balancer(settings, device=device, verbose=verbose).fit(data.train)
