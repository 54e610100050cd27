"""What a checkpoint saw."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

RECORDS_VERSION = 2

# What decides a number: a change of any of these may change it.
ROOMS = ("data", "latent", "balance", "algorithms")
PARTS = ("data", "batches", "balancers", "training", "evaluation")  # of this room
NOT_CODE = ("__init__", "balance_job", "demo", "locks", "progress")


@lru_cache(maxsize=1)
def digest_code() -> str:
    """Sixteen hexadecimal digits of the code behind a run; comments and docstrings do not count.

    Results carry it, so that runs of one code are never mixed with those of another.
    """
    package = Path(__file__).parents[1]
    paths = [path for name in ROOMS for path in sorted((package / name).rglob("*.py"))]
    paths += [package / "benchmark" / f"{name}.py" for name in PARTS]
    paths += [path for path in sorted(package.glob("*.py")) if path.stem not in NOT_CODE]
    parts = [f"{path.relative_to(package)} {digest_source(path.read_text())}" for path in paths]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def digest_source(text: str) -> str:
    """A digest of what Python executes of a module's text."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


class OtherVersion(ValueError):
    """Written by a version of equipoise whose records have another form."""


def check_version(found: Any) -> None:
    """Raise `OtherVersion` unless records of this version can be read here."""
    if found != RECORDS_VERSION:
        raise OtherVersion(
            f"its records are of version {found!r}, this equipoise reads version "
            f"{RECORDS_VERSION}: read it with the equipoise that wrote it, or train again"
        )


@dataclass(frozen=True)
class Record:
    """The losses since the last checkpoint and the accuracies at this one.

    step : updates done
    loss : cross-entropy, and `losses` every reported term; means over the steps since the last
    train_accuracy, held_out_accuracy : of every environment by name, the test one included
    validation_accuracy : mean of the training environments' held-out accuracies
    balanced_validation_accuracy : the same with balanced weights; None without a balancer
    ood_accuracy : on the test environment's train part, the number DomainBed reports
    ood_held_out_accuracy : on its held-out part
    """

    step: int
    loss: float
    losses: Mapping[str, float]
    train_accuracy: Mapping[str, float]
    held_out_accuracy: Mapping[str, float]
    validation_accuracy: float
    balanced_validation_accuracy: float | None
    ood_accuracy: float | None
    ood_held_out_accuracy: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values for a JSON line."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Record:
        """A record from what `to_json` gave."""
        known = {field.name for field in fields(cls)}
        if "step" in values and known != set(values):  # else it is no record at all
            strange = sorted(known ^ set(values))
            raise OtherVersion(
                f"a record has other fields than those of this equipoise ({', '.join(strange)}): "
                "read it with the equipoise that wrote it, or train again"
            )
        return cls(**values)
