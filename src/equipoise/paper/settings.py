"""The paper's settings for balanced batches, from `hyperparameters.json` (its Table 3)."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Any

PRIORS = {1: "gaussian-fixed-variance", 2: "gaussian"}


@lru_cache(maxsize=1)
def _read() -> dict[str, Any]:
    text = files("equipoise.paper").joinpath("hyperparameters.json").read_text()
    return dict(json.loads(text))


def list_paper_datasets() -> tuple[str, ...]:
    """The datasets of the paper's Table 3."""
    return tuple(_read())


def paper_settings(dataset: str, algorithm: str = "ERM") -> dict[str, Any]:
    """Settings of a run as the paper has them: a, and n, k, lr, batch size and d of the balancer.

    The score is read as the text has it, z encoded with the observed label, and the nearest
    example is the match. An algorithm that Table 3 does not know gets CORAL's a. How long the
    paper fits its VAE it does not say: that stays at our default.

    >>> paper_settings("PACS", "ERM")["n_matches"]
    3
    """
    found = _read().get(dataset)
    if found is None:
        raise ValueError(
            f"the paper has no settings for {dataset!r}; it has them for {', '.join(_read())}"
        )
    return {
        "n_matches": found["a"].get(algorithm, found["a"]["CORAL"]),
        "balancer": {
            "latent_dim": found["n"],
            "prior": PRIORS[found["k"]],
            "lr": found["lr"],
            "batch_size": found["batch_size"],
            "metric": found["d"],
            "score": "observed",
            "n_nearest": 1,
        },
    }
