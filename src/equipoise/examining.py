"""The looking half of a balancer: examples with what the fit makes of them, and their diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.balance import Groups, MatchSource
from equipoise.balancer_checks import read_further
from equipoise.balancing import balance_examples
from equipoise.data import shrink_examples
from equipoise.latent import Features

if TYPE_CHECKING:
    from equipoise.balancer import CausalBalancer
    from equipoise.diagnosis import BalanceDiagnostics

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Wider tables are not listed column by column.
MOST_COLUMNS = 100


@dataclass(frozen=True)
class Examined:
    """Examples with what the fit makes of them; no `source` where they are not at hand."""

    source: Any
    labels: Ints
    environments: Ints
    z: Floats
    log_scores: Floats
    matches: MatchSource | None
    weights: Floats
    features: Features | None = None
    covariates: pd.DataFrame | None = None
    feature_names: tuple[str, ...] | None = None


def examine_examples(
    balancer: CausalBalancer, X: Any, y: Any, environments: Any, covariates: Any
) -> Examined:
    """The fitted examples where X is None, else further ones."""
    if isinstance(X, Examined):
        return X
    examples, table = getattr(balancer, "_examples", None), balancer.covariates_
    if X is not None:
        examples, table = read_further(balancer, X, y, environments, covariates)
    codes, z, names = (balancer._labels, balancer._environments), balancer.z_, balancer.names_
    found: tuple[Any, Any, Any] = (balancer.log_scores_, balancer.matches_, balancer.weights_)
    if examples is None:
        return Examined(None, *codes, z, *found, None, table, names.features)
    fitted, codes = codes, (examples.labels, examples.environments)
    features = balancer.score_.encode(examples)
    z = balancer.score_.coordinates(examples, features)
    # The fitted examples once more have the same z but for the last digits.
    same = all(map(np.array_equal, codes, fitted))
    if X is not None and not (same and np.allclose(z, balancer.z_, rtol=1e-4, atol=1e-4)):
        scores = balancer.score_.score(examples, table)
        found = scores, *balance_examples(balancer, scores, z, examples, table, balancer._seed)
    return Examined(examples.source, *codes, z, *found, features, table, examples.feature_names)


def diagnose_examined(
    balancer: CausalBalancer,
    examined: Examined,
    known: Mapping[str, Any] | pd.DataFrame | None,
    with_price: bool,
) -> BalanceDiagnostics:
    """Diagnose with the names of the fit; a dataset's own covariate is known by itself."""
    from equipoise.diagnosis import diagnose_balance  # slow to import: scikit-learn's models

    if known is None and getattr(examined.source, "covariate", None) is not None:
        known = {examined.source.covariate_name: examined.source.covariate}
    names, part = balancer.names_, balancer.score_.part
    groups = Groups(
        examined.labels,
        examined.environments,
        names.labels or tuple(map(str, balancer.classes_)),
        names.environments or tuple(map(str, balancer.environments_)),
    )
    x, columns = _read_table(examined)
    return diagnose_balance(
        examined.z,
        examined.log_scores,
        examined.matches,
        groups,
        weights=examined.weights,
        n_matches=balancer.n_matches_,
        varying=part,
        coordinates=examined.z if part is not None else None,
        features=examined.features,
        columns=columns,
        given=None if examined.covariates is None else dict(examined.covariates.items()),
        known=known,
        x=x if with_price else None,
        seed=balancer._seed,
    )


def _read_table(examined: Examined) -> tuple[NDArray | None, dict[str, Floats]]:
    """Examples for small classifiers, and the columns of a table by name."""
    n = len(examined.labels)
    if examined.source is None or not n:
        return None, {}
    x = shrink_examples(examined.source, np.arange(n)).numpy()
    if x.ndim > 2:
        return x, {}
    first = examined.source.fetch(np.zeros(1, dtype=np.int64))
    x = x.astype(np.float64)
    if first.ndim != 2:
        return x, {}
    if first.shape[1] > MOST_COLUMNS:
        return x, {}
    names = examined.feature_names or tuple(f"feature {i + 1}" for i in range(x.shape[1]))
    return x, {name: x[:, i] for i, name in enumerate(names)}
