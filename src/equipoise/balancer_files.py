"""A fitted balancer as one file of tensors and facts, and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import torch

from equipoise.balance import LazyMatches, pack_matches, unpack_matches
from equipoise.balancing import match_examples
from equipoise.data import DataNames
from equipoise.files import load_state, make_plain, save_state
from equipoise.scoring import BalancingScore

if TYPE_CHECKING:
    from equipoise.balancer import CausalBalancer

Balancer = TypeVar("Balancer", bound="CausalBalancer")

FORMAT = 5  # of 3 on, no file holds NaN: values are checked once, before they are written
ON_DEMAND = "on demand"  # in the place of facts on matches that are searched again


def save_balancer(balancer: CausalBalancer, path: str | Path) -> None:
    """Write parameters, score, matches, weights and names; what is not a number is refused.

    Matches on demand are not written: `load_balancer` searches again, by the scores and parameters.
    """
    for name in ("log_scores", "z", "weights"):
        _refuse_nan(name, getattr(balancer, f"{name}_"))
    tensors, score = balancer.score_.state()
    arrays = {
        "log_scores": balancer.log_scores_,
        "z": balancer.z_,
        "weights": balancer.weights_,
        "labels": balancer._labels,
        "environments": balancer._environments,
    }
    matches: dict[str, Any] | str | None = None
    if isinstance(balancer.matches_, LazyMatches):
        matches = ON_DEMAND
    elif balancer.matches_ is not None:
        arrays |= pack_matches(balancer.matches_)
        matches = {"n_nearest": balancer.matches_.n_nearest, "metric": balancer.matches_.metric}
    table = balancer.covariates_
    facts = {
        "format": FORMAT,
        "causal_balancer": make_plain(balancer.get_params()),
        "names": balancer.names_.to_facts(),
        "n_matches": balancer.n_matches_,
        "n_features": balancer.n_features_in_,
        "seed": balancer._seed,
        "score": score,
        "matches": matches,
        "covariates": None if table is None else json.loads(table.to_json(orient="split")),
    }
    tensors |= {k: torch.from_numpy(np.array(v, order="C")) for k, v in arrays.items()}
    save_state(path, tensors, facts)


def load_balancer(balancer: Balancer, path: str | Path) -> Balancer:
    """Fill a balancer with what `save_balancer` wrote."""
    tensors, facts = load_state(path)
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(
            f"{path} does not hold a CausalBalancer of this version: fit and save it again"
        )
    try:
        return _restore(balancer, tensors, facts)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{path} does not hold a CausalBalancer of this version (missing: {error}): fit and "
            "save it again"
        ) from error


def _restore(balancer: Balancer, tensors: dict[str, torch.Tensor], facts: Any) -> Balancer:
    parameters = facts["causal_balancer"]
    lists = {k: tuple(v) for k, v in parameters.items() if isinstance(v, list)}
    balancer.set_params(**parameters | lists)
    balancer.names_ = DataNames.from_facts(facts["names"])
    balancer.classes_, balancer.environments_ = balancer.names_.classes, balancer.names_.sites
    balancer.n_matches_, balancer.n_features_in_ = facts["n_matches"], facts["n_features"]
    if balancer.names_.features is not None:
        balancer.feature_names_in_ = np.array(balancer.names_.features, dtype=object)
    balancer._seed = facts["seed"]
    balancer.score_ = BalancingScore.from_state(tensors, facts["score"])
    balancer.n_varying_ = len(balancer.score_.part or ())
    for name in ("log_scores", "z", "weights"):
        setattr(balancer, f"{name}_", tensors[name].numpy())
    balancer._labels = tensors["labels"].numpy()
    balancer._environments = tensors["environments"].numpy()
    table = facts["covariates"]
    balancer.covariates_ = table and pd.DataFrame(table["data"], columns=table["columns"])
    balancer.matches_ = None
    if facts["matches"] == ON_DEMAND:
        codes = balancer._labels, balancer._environments
        balancer.matches_ = match_examples(
            balancer, balancer.log_scores_, *codes, balancer.covariates_, balancer._seed
        )
    elif facts["matches"] is not None:
        arrays = {name: value.numpy() for name, value in tensors.items() if "match" in name}
        balancer.matches_ = unpack_matches(arrays, **facts["matches"])
    return balancer


def _refuse_nan(name: str, values: np.ndarray) -> None:
    if np.isnan(values.min(initial=0)):  # a minimum is NaN if any value is
        raise ValueError(f"the balancer holds NaN in {name}_ and is not saved: fit it again")
