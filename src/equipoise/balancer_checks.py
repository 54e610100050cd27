"""What may be wrong with the parameters and the data of a balancer, before anything takes long."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance import as_table, check_matching, choose_n_matches
from equipoise.balancing import METHODS
from equipoise.checks import (
    check_choice,
    check_count,
    check_device,
    check_flag,
    check_jobs,
    check_number,
    check_seed,
    show,
)
from equipoise.data import DataNames, Examples, check_for_balancing, collect_examples
from equipoise.latent import AUTO, READINGS, FitSettings, get_prior
from equipoise.scoring import BALANCE_ON, read_widths

if TYPE_CHECKING:
    from equipoise.balancer import CausalBalancer

#: The largest latent size that is allowed.
MOST_LATENT = 4096


def check_parameters(balancer: CausalBalancer) -> FitSettings:
    """All that can be told without data; settings of the VAE, with the seed in use."""
    check_choice("balance_on", balancer.balance_on, BALANCE_ON)
    check_choice("method", balancer.method, METHODS)
    automatic = isinstance(balancer.tolerance, str) and balancer.tolerance == AUTO
    if balancer.tolerance is not None and not automatic:
        check_number("tolerance", balancer.tolerance, least=0.0)
    check_matching(
        balancer.metric,
        balancer.n_nearest,
        None,
        balancer.caliper,
        balancer.reuse_max,
        balancer.common_support,
    )
    if not isinstance(balancer.prior, str) or balancer.prior != AUTO:
        get_prior(balancer.prior)
    if isinstance(balancer.latent_dim, str):
        check_choice("latent_dim", balancer.latent_dim, (AUTO,), hint="or a whole number")
    elif balancer.latent_dim is not None:
        check_count("latent_dim", balancer.latent_dim, most=MOST_LATENT)
    check_choice("reading", balancer.reading, (AUTO, *READINGS))
    check_device("device", balancer.device)
    check_jobs("n_jobs", balancer.n_jobs)
    check_flag("verbose", balancer.verbose)
    exact = balancer.exact
    if not isinstance(exact, list | tuple) or not all(isinstance(name, str) for name in exact):
        raise TypeError(f"exact must be a list of names of covariates, got {show(exact)}")
    if balancer.random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    else:
        seed = check_seed("random_state", balancer.random_state)
    read_widths(balancer.hidden)
    return FitSettings(
        max_steps=check_count("max_steps", balancer.max_steps),
        batch_size=check_count("batch_size", balancer.batch_size),
        lr=check_number("lr", balancer.lr, above=0.0),
        seed=seed,
        feature_noise=check_number("feature_noise", balancer.feature_noise, above=0.0),
    )


def check_target(balancer: CausalBalancer, classes: NDArray, table: pd.DataFrame | None) -> int:
    """The number of matches; a target and exact covariates must exist."""
    if len(balancer.exact) and table is None:
        raise ValueError(f"exact={balancer.exact[0]!r} must be one of the covariates: give them")
    if len(balancer.exact) and balancer.method != "match":
        raise ValueError(f'exact goes with method="match"; got method={balancer.method!r}')
    for name in balancer.exact:
        check_choice("exact covariate", name, () if table is None else tuple(table.columns))
    if balancer.target is not None:
        if balancer.method == "match":
            raise ValueError('target goes with method="overlap" or "entropy"; got method="match"')
        target, known = balancer.target, classes.tolist()
        if not isinstance(target, Hashable) or target not in set(known):
            raise ValueError(f"target {show(target)} is no label: {known[:10]}")
    return choose_n_matches(len(classes), balancer.n_matches)


def read_covariates(
    balancer: CausalBalancer,
    X: Any,
    y: Any,
    environments: Any,
    covariates: Any,
    *,
    names: DataNames | None = None,
    given: Sequence[str] = (),
    **columns: Any,
) -> tuple[Examples, pd.DataFrame | None]:
    """Examples, and given covariates as a table; what cannot be balanced is refused.

    `names` and `given` are those of an earlier fit.
    """
    if balancer.balance_on == "given" and covariates is None and not given:
        raise ValueError('balance_on="given" needs covariates: give at least one')
    if isinstance(covariates, str):
        covariates = [covariates]
    if covariates is None and given and isinstance(X, pd.DataFrame):
        covariates = [name for name in given if name in X]
    by_name = isinstance(covariates, list | tuple) and all(isinstance(c, str) for c in covariates)
    if by_name:
        if not isinstance(X, pd.DataFrame):
            raise ValueError("covariates by name need X to be a data frame; give their values")
        absent = [name for name in covariates if name not in X]
        if absent:
            raise ValueError(f"covariate {absent[0]!r} is no column of X")
        covariates = X[list(covariates)]
        if X.select_dtypes(exclude="number").shape[1]:  # categories are read as covariates only
            is_number = pd.api.types.is_numeric_dtype
            X = X.drop(columns=[c for c in covariates if not is_number(X[c])])
    own = hasattr(X, "environments") or columns.get("environment") is not None
    if environments is None and y is not None and not own:  # one environment for all
        site = 0 if names is None or len(names.sites) != 1 else names.sites[0]
        environments = np.full(len(y), site)
    examples = collect_examples(X, y, environments, names=names, **columns)
    if names is None:
        if len(examples.names.sites) > 1 or balancer.balance_on == "all":
            check_for_balancing(examples)
        elif len(examples.names.classes) < 2:
            raise ValueError(
                "balancing needs two labels or more, but every example has the label "
                f"{examples.label_names[0]!r}: one class"
            )
        elif balancer.balance_on == "varying" and covariates is None:
            warnings.warn(
                "there is one environment only, so no link can be seen to vary: batches are "
                "balanced in labels and nothing else. Give environments, or covariates",
                stacklevel=3,
            )
    if covariates is None:
        return examples, None
    table = as_table(covariates, list(given) or None)
    if len(table) != len(examples):
        raise ValueError(
            f"covariates have {len(table)} rows, but there are {len(examples)} examples"
        )
    return examples, table


def read_further(
    balancer: CausalBalancer, X: Any, y: Any, environments: Any, covariates: Any
) -> tuple[Examples, pd.DataFrame | None]:
    """Further examples in the terms of the fit: by names where there are any."""
    known: dict[str, Any] = {"names": balancer.names_, "given": balancer.score_.given}
    examples, table = read_covariates(balancer, X, y, environments, covariates, **known)
    size = int(np.prod(examples.input_shape))
    if len(examples) and size != balancer.n_features_in_:
        raise ValueError(
            f"X has {size} features, but CausalBalancer is expecting {balancer.n_features_in_} "
            "features as input"
        )
    return examples, table
