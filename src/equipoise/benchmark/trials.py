"""Finished runs as selection rules see them, wherever they were trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from equipoise.benchmark.records import Record


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run of ours or of DomainBed: what it was and its records.

    `settings` are those beyond the named ones; runs that differ in them do not compare.
    """

    dataset: str
    algorithm: str
    sampling: str
    test_environment: str
    validation_environment: str | None
    seed: int
    hyperparameters: Mapping[str, Any]
    records: tuple[Record, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    def leaves_out(self, environment: str) -> bool:
        """Whether this environment was not trained on."""
        return environment in (self.test_environment, self.validation_environment)


@dataclass(frozen=True)
class Trial:
    """A run, and those with the same hyperparameters that leave out one environment more."""

    run: FinishedRun
    companions: tuple[FinishedRun, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """The record a rule chose of a trial, and its score among other trials."""

    record: Record
    score: float
