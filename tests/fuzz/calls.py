"""Public calls with bad arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch

from equipoise import CausalBalancer
from equipoise.balance import (
    BalancedBatchSampler,
    WeightedBatchSampler,
    balanced_frequencies,
    common_support,
    effective_sample_size,
    entropy_weights,
    find_matches,
    fit_propensity,
    infer_environments,
    match_covariate,
    match_scores,
    overlap_weights,
)
from equipoise.benchmark import RunSettings, load_run
from equipoise.data import (
    Examples,
    as_environments,
    as_source,
    check_folders,
    collect_examples,
    compute_features,
    get_dataset,
    load_backbone,
    open_dataset,
    split_environments,
)
from equipoise.report import write_report
from tests.fuzz.forked import Case, Draw
from tests.fuzz.good import FAST, RNG, SCORES, E, N, X, Y, use_folder
from tests.fuzz.grammar import COLUMNS, EXAMPLES, ODD_TABLES, SCALARS


def _show(value: Any) -> str:
    try:
        return f"{type(value).__name__} {str(value)[:40]!r}"
    except Exception:
        return type(value).__name__


def _vary(
    name: str, call: Callable[..., Any], good: dict[str, Any], pools: dict[str, tuple]
) -> Iterator[Case]:
    """The call with each argument in turn replaced by each value of its pool."""
    for argument, pool in pools.items():
        for value in pool:
            given = {**good, argument: value}
            yield Case(f"{name}({argument}={_show(value)})", partial(call, **given))


def _vary_some(
    name: str, call: Callable[..., Any], good: dict[str, Any], pools: dict[str, tuple]
) -> Draw:
    """The same with several arguments at once, drawn at random."""

    def draw(rng: np.random.Generator) -> Case:
        chosen = rng.choice(
            list(pools), size=min(len(pools), int(rng.integers(1, 4))), replace=False
        )
        given = {a: pools[a][rng.integers(len(pools[a]))] for a in map(str, chosen)}
        told = ", ".join(f"{a}={_show(v)}" for a, v in given.items())
        return Case(f"{name}({told})", partial(call, **{**good, **given}))

    return draw


def _fit(
    X: Any = X, y: Any = Y, environments: Any = E, covariates: Any = None, **parameters: Any
) -> None:
    balancer = CausalBalancer(**{**FAST, "max_steps": 2, **parameters})
    balancer.fit(X, y, environments, covariates=covariates)


def _examine(frame: pd.DataFrame, covariates: Any = None, **parameters: Any) -> None:
    """A table through the balancer, the diagnosis and the page."""
    given = {"balance_on": "given", "covariates": covariates} if covariates is not None else {}
    how = {"label": "label", "environment": "environment"}
    if given:
        how["covariates"] = given.pop("covariates")
    balancer = CausalBalancer(**{**FAST, "max_steps": 2, **given, **parameters}).fit(frame, **how)
    path = use_folder() / "page.html"
    try:
        write_report(path, balancer, diagnostics=balancer.diagnose())
        balancer.save(use_folder() / "b.safetensors")
        loaded = CausalBalancer.load(use_folder() / "b.safetensors")
        if not np.array_equal(loaded.weights_, balancer.weights_):
            raise AssertionError("other weights after loading")
    finally:
        path.unlink(missing_ok=True)


MATCHES = match_scores(SCORES, Y, E)


def _sample(**settings: Any) -> None:
    given = {"labels": Y, "environments": E, "anchors_per_environment": 4, "n_matches": 1}
    sampler = BalancedBatchSampler(**{**given, "matches": MATCHES, **settings})
    for number, _ in enumerate(sampler):
        if number == 2:
            break


def _open(place: Any) -> None:
    open_dataset(place)


def _fetch_first(x: Any) -> None:
    source = as_source(x)
    source.fetch(np.arange(min(1, len(source))))


def list_calls() -> list[tuple[str, Callable[..., Any], dict[str, Any], dict[str, tuple]]]:
    """Public calls with good arguments, and the pool for each that may be bad."""
    parameters = [name for name in CausalBalancer().get_params() if name != "verbose"]
    samplers = [
        name
        for name in inspect.signature(BalancedBatchSampler.__init__).parameters
        if name != "self"
    ]
    matching = [
        name
        for name, about in inspect.signature(match_scores).parameters.items()
        if about.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    columns = {"labels": COLUMNS, "environments": COLUMNS}
    steps = 2
    settings = {"dataset": "tiny", "algorithm": "ERM", "steps": steps, "checkpoint_every": 1}
    fields = (
        "algorithm",
        "steps",
        "checkpoint_every",
        "seed",
        "sampling",
        "held_out",
        "hyperparameters",
    )
    fields += ("n_matches", "anchors_per_environment", "balancer", "test_environment")
    fields += ("hyperparameters",)
    frame = pd.DataFrame({"a": X[:, 0], "y": Y, "e": E})
    scored = {"log_scores": SCORES, "labels": Y, "environments": E}
    scores = {"log_scores": EXAMPLES, **columns}
    measured = {"covariates": X, "labels": Y, "environments": E}
    covariates = {"covariates": EXAMPLES, **columns, "target": SCALARS}
    methods = [
        ("fit", partial(_fit, method=method), {}, {"X": EXAMPLES, "y": COLUMNS, "target": SCALARS})
        for method in ("overlap", "entropy")
    ]
    return [
        *methods,
        (
            "fit given",
            partial(_fit, balance_on="given"),
            {"covariates": pd.DataFrame({"age": X[:, 0], "sex": Y})},
            {"covariates": (*EXAMPLES, *COLUMNS), "exact": SCALARS, "method": SCALARS},
        ),
        (
            "infer_environments",
            infer_environments,
            {"X": X, "labels": Y},
            {"X": EXAMPLES, "labels": COLUMNS, "seed": SCALARS, "contrast": SCALARS},
        ),
        ("entropy_weights", entropy_weights, measured, {**covariates, "moments": SCALARS}),
        ("overlap_weights", overlap_weights, scored, {**scores, "target": SCALARS}),
        ("common_support", common_support, scored, {**scores, "least": SCALARS}),
        (
            "fit_propensity",
            fit_propensity,
            measured,
            {
                "covariates": EXAMPLES,
                **columns,
                **dict.fromkeys(("seed", "model", "n_folds", "n_labels"), SCALARS),
            },
        ),
        (
            "find_matches",
            find_matches,
            scored,
            {**scores, **dict.fromkeys(("n_nearest", "caliper", "reuse_max", "memory"), SCALARS)},
        ),
        (
            "WeightedBatchSampler",
            WeightedBatchSampler,
            {"weights": np.ones(N), "labels": Y, "environments": E, "examples_per_environment": 4},
            {
                "weights": COLUMNS,
                **columns,
                "examples_per_environment": SCALARS,
                "seed": SCALARS,
                "num_replicas": SCALARS,
                "rank": SCALARS,
            },
        ),
        ("table", _examine, {"frame": ODD_TABLES[0]}, {"frame": ODD_TABLES}),
        (
            "table given",
            partial(_examine, covariates=["a"]),
            {"frame": ODD_TABLES[0]},
            {"frame": ODD_TABLES, "covariates": SCALARS, "method": ("match", "overlap", "entropy")},
        ),
        ("fit", _fit, {}, dict.fromkeys(parameters, SCALARS)),
        ("fit", _fit, {}, {"X": EXAMPLES, "y": COLUMNS, "environments": COLUMNS}),
        (
            "match_scores",
            match_scores,
            {"log_scores": SCORES, "labels": Y, "environments": E},
            {"log_scores": EXAMPLES, **columns, **dict.fromkeys(matching, SCALARS)},
        ),
        (
            "match_covariate",
            match_covariate,
            {"covariate": Y, "labels": Y, "environments": E, "generator": RNG},
            {"covariate": COLUMNS, **columns, "generator": SCALARS, "n_nearest": SCALARS},
        ),
        ("BalancedBatchSampler", _sample, {}, dict.fromkeys(samplers, SCALARS)),
        ("balanced_frequencies", balanced_frequencies, {}, {"matches": SCALARS}),
        ("effective_sample_size", effective_sample_size, {}, {"weights": COLUMNS}),
        (
            "Examples",
            Examples,
            {"X": X, "labels": Y, "environments": E},
            {"X": EXAMPLES, **columns},
        ),
        (
            "collect_examples",
            collect_examples,
            {"X": frame, "label": "y", "environment": "e"},
            {"X": EXAMPLES, "label": SCALARS, "environment": SCALARS, "features": SCALARS},
        ),
        (
            "as_environments",
            as_environments,
            {"x": X, "labels": Y, "environments": E},
            {"x": EXAMPLES, **columns},
        ),
        ("as_source", _fetch_first, {}, {"x": EXAMPLES}),
        (
            "split_environments",
            split_environments,
            {"environments": E},
            {"environments": COLUMNS, "held_out": SCALARS, "data_seed": SCALARS},
        ),
        (
            "compute_features",
            partial(compute_features, Examples(X, Y, E)),
            {"backbone": torch.nn.Linear(3, 2), "cache": use_folder() / "features"},
            {"backbone": SCALARS, "batch_size": SCALARS, "device": SCALARS, "cache": SCALARS[:1]},
        ),
        ("load_backbone", load_backbone, {}, {"name": SCALARS}),
        ("get_dataset", get_dataset, {"name": "nothing"}, {"name": SCALARS, "data_dir": SCALARS}),
        ("open_dataset", _open, {}, {"place": SCALARS}),
        (
            "check_folders",
            check_folders,
            {"root": "nothing"},
            {"root": SCALARS, "dataset": SCALARS},
        ),
        ("RunSettings", RunSettings, settings, dict.fromkeys(fields, SCALARS)),
        ("load", CausalBalancer.load, {}, {"path": SCALARS}),
        ("load_run", load_run, {"path": "nothing"}, {"path": SCALARS, "selection": SCALARS}),
    ]


def table_calls() -> Iterator[Case]:
    """Each argument of each call by itself."""
    for name, call, good, pools in list_calls():
        yield from _vary(name, call, good, pools)


def draw_calls() -> list[Draw]:
    """Several arguments at once."""
    return [_vary_some(*each) for each in list_calls()]
