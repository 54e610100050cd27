"""Selected runs -> a sweep file that trains with their hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.benchmark.selected_runs import SelectedRun

# Where DomainBed has another word.
OTHER_WORDS = {"resnet_dropout": "dropout"}


@dataclass(frozen=True)
class ChosenSweep:
    """The text of a sweep file, and what of the search has no counterpart here."""

    text: str
    left_out: tuple[str, ...]


def write_chosen(
    selected: Sequence[SelectedRun], *, samplings: Sequence[str] = ("random", "balanced")
) -> ChosenSweep:
    """A sweep over the same cells and seeds, each with the hyperparameters a rule chose for it.

    >>> run = SelectedRun("PACS", "ERM", "random", "photo", 0, "train-domain", 0.97, 300,
    ...     {"lr": 5e-5, "resnet18": False})
    >>> chosen = write_chosen([run])
    >>> chosen.left_out
    ('ERM: resnet18',)
    >>> "lr: 5.0e-05" in chosen.text
    True
    """
    known = [run for run in selected if run.algorithm in list_algorithms()]
    strange = {f"algorithm {run.algorithm}" for run in selected if run not in known}
    if not known:
        raise ValueError(
            f"none of the algorithms {', '.join(sorted({r.algorithm for r in selected}))} is known "
            "here: there is nothing to train"
        )
    adjust = []
    for run in known:
        hyperparameters, unknown = translate_hyperparameters(run.algorithm, run.hyperparameters)
        strange |= {f"{run.algorithm}: {name}" for name in unknown}
        only = {
            "dataset": run.dataset,
            "algorithm": run.algorithm,
            "test_environment": run.test_environment,
            "seed": run.seed,
        }
        adjust.append({"only": only, "hyperparameters": hyperparameters})
    content = {
        "datasets": _unique(run.dataset for run in known),
        "algorithms": _unique(run.algorithm for run in known),
        "samplings": list(samplings),
        "test_environments": {
            dataset: _unique(run.test_environment for run in known if run.dataset == dataset)
            for dataset in _unique(run.dataset for run in known)
        },
        "seeds": sorted({run.seed for run in known}),
        "profile": "domainbed",
        "adjust": adjust,
    }
    head = f"# Hyperparameters chosen by {', '.join(_unique(run.selection for run in known))}.\n"
    text = head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return ChosenSweep(text, tuple(sorted(strange)))


def translate_hyperparameters(
    algorithm: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Those that the algorithm has here, by its words and within its bounds, and the others."""
    space = get_algorithm(algorithm).hyperparameters
    translated, unknown = {}, []
    for name, value in found.items():
        own = OTHER_WORDS.get(name, name)
        try:
            if own not in space:
                raise ValueError(own)
            space[own].check(own, value)
        except ValueError:
            unknown.append(name)
            continue
        translated[own] = value
    return translated, unknown


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
