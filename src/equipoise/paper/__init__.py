"""What the paper published: every number of its tables, and the hyperparameters behind them."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from operator import attrgetter
from typing import Any

__all__ = [
    "ALL_DATASETS",
    "AVERAGE",
    "PaperAccuracy",
    "find_accuracy",
    "list_accuracies",
    "list_environments",
    "list_paper_datasets",
    "paper_settings",
]

AVERAGE = "average"  # over test environments
ALL_DATASETS = "all"


@dataclass(frozen=True)
class PaperAccuracy:
    """One number in percent, with the paper's ± where it gives one.

    Tables 1, 2 and 4 are in the text and its appendix; 5 to 11 are the detailed results of
    ColoredMNIST, RotatedMNIST, VLCS, PACS, OfficeHome, TerraIncognita and DomainNet.
    """

    table: int
    selection: str
    dataset: str
    test_environment: str
    algorithm: str
    sampling: str
    metric: str
    accuracy: float
    spread: float | None


CELL = attrgetter(*("selection", "dataset", "test_environment", "algorithm", "sampling", "metric"))


@lru_cache(maxsize=1)
def list_accuracies() -> tuple[PaperAccuracy, ...]:
    """All of them, in the order of the paper.

    >>> len(list_accuracies())
    554
    """
    text = files("equipoise.paper").joinpath("accuracies.csv").read_text()
    found = []
    for row in csv.DictReader(text.splitlines()):
        spread = float(row["spread"]) if row["spread"] else None
        numbers = {"table": int(row["table"]), "accuracy": float(row["accuracy"])}
        values: dict[str, Any] = {**row, **numbers, "spread": spread}
        found.append(PaperAccuracy(**values))
    return tuple(found)


@lru_cache(maxsize=1)
def list_environments() -> dict[str, tuple[str, ...]]:
    """The environments of every dataset with detailed results, in the paper's order.

    >>> list_environments()["PACS"]
    ('art_painting', 'cartoon', 'photo', 'sketch')
    """
    found: dict[str, dict[str, None]] = {}
    for each in list_accuracies():
        if each.table > 4 and each.test_environment != AVERAGE:
            found.setdefault(each.dataset, {})[each.test_environment] = None
    return {dataset: tuple(names) for dataset, names in found.items()}


def find_accuracy(
    *,
    dataset: str,
    algorithm: str,
    sampling: str,
    test_environment: str,
    selection: str = "train-domain",
    metric: str = "",
) -> PaperAccuracy | None:
    """The paper's number for this cell, from the first table that has it; None if none has.

    Beside a rule that the paper does not know stands its train-domain number, the one that sees
    no test data either.

    >>> found = find_accuracy(
    ...     dataset="ColoredMNIST10", algorithm="ERM", sampling="balanced", test_environment="0.9"
    ... )
    >>> found.accuracy, found.spread
    (69.8, 0.3)
    """
    rule = "test-domain" if selection == "test-domain" else "train-domain"
    wanted = (rule, dataset, test_environment, algorithm, sampling, metric)
    return next((each for each in list_accuracies() if CELL(each) == wanted), None)


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
            "balance_on": "all",
            "reading": "observed",
            "n_nearest": 1,
        },
    }
