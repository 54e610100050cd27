"""What a run may see of a dataset: parts by environment, nothing held out among the training."""

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.benchmark.selection import SELECTIONS
from equipoise.benchmark.settings import RunSettings
from equipoise.data import (
    EnvironmentDataset,
    EnvironmentSubset,
    fingerprint_data,
    open_dataset,
    split_environments,
)

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class RunData:
    """A dataset split for one run.

    `train` holds the train parts of the training environments and is all that a fit, a match
    or a batch can reach; `held_out` their held-out parts. `train_parts` and `held_out_parts`
    are the rows of the dataset in each part of every environment, the test one included.
    `features` are what the balancer sees of the same examples, if not the dataset itself.
    """

    dataset: EnvironmentDataset
    test_environment: int | None
    validation_environment: int | None
    training_environments: tuple[int, ...]
    train_parts: tuple[Ints, ...]
    held_out_parts: tuple[Ints, ...]
    train: EnvironmentSubset
    held_out: EnvironmentSubset
    features: EnvironmentDataset | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Of the whole dataset, examples and all, and of the balancer's features."""
        own = fingerprint_data(self.dataset)
        return own if self.features is None else f"{own}-{fingerprint_data(self.features)}"

    def show_balancer(self, examples: EnvironmentSubset) -> EnvironmentDataset:
        """These examples of the dataset as the balancer sees them."""
        return examples if self.features is None else self.features.subset(examples.indices)


def split_for_run(settings: RunSettings, dataset: EnvironmentDataset) -> RunData:
    """Split every environment by the data seed and set apart those not to be trained on."""
    test = find_environment(dataset, settings.test_environment)
    validation = find_environment(dataset, settings.validation_environment)
    if validation is not None and test in (None, validation):
        raise ValueError(
            f"validation_environment {settings.validation_environment!r} needs a test environment "
            f"other than itself, got {settings.test_environment!r}"
        )
    training = tuple(e for e in range(dataset.n_environments) if e not in (test, validation))
    if not training:
        raise ValueError("every environment is left out: nothing to train on")
    split = split_environments(
        dataset.environments, held_out=settings.held_out, data_seed=settings.data_seed
    )
    train_parts, held_out_parts = (
        tuple(rows[dataset.environments[rows] == e] for e in range(dataset.n_environments))
        for rows in (split.train, split.held_out)
    )
    for name, *parts in zip(dataset.environment_names, train_parts, held_out_parts, strict=True):
        n_train, n_out = map(len, parts)
        if n_train == 0 or n_out == 0:
            raise ValueError(
                f"environment {name!r} has {n_train} examples to train on and {n_out} "
                f"held out (held_out={settings.held_out}); both need at least 1"
            )
    train, held_out = (
        dataset.subset(np.sort(np.concatenate([parts[e] for e in training])))
        for parts in (train_parts, held_out_parts)
    )
    return RunData(
        dataset=dataset,
        test_environment=test,
        validation_environment=validation,
        training_environments=training,
        train_parts=train_parts,
        held_out_parts=held_out_parts,
        train=train,
        held_out=held_out,
        features=_open_features(settings.balance_features, dataset),
    )


def _open_features(place: str | None, dataset: EnvironmentDataset) -> EnvironmentDataset | None:
    """Other features of the very examples of a dataset; anything else is a ValueError."""
    if place is None:
        return None
    features = open_dataset(place)
    lead = f"balance_features must be of the same examples as the dataset: {place} has"
    if len(features) != len(dataset):
        raise ValueError(f"{lead} {len(features):,}, the dataset {len(dataset):,}")
    for kind in ("label", "environment"):
        own, other = (
            [getattr(data, f"{kind}_names")[code] for code in getattr(data, f"{kind}s")]
            for data in (dataset, features)
        )
        _compare(lead, kind, own, other)
    # Examples without a file are numbered when they are saved.
    numbers = tuple(str(row) for row in range(len(dataset)))
    if dataset.paths and features.paths and numbers not in (dataset.paths, features.paths):
        _compare(lead, "file", dataset.paths, features.paths)
    # By the dataset's codes: the same names may be numbered in another order.
    features.labels, features.environments = dataset.labels, dataset.environments
    features.label_names = dataset.label_names
    features.environment_names = dataset.environment_names
    features.covariate, features.covariate_name = dataset.covariate, dataset.covariate_name
    return features


def _compare(lead: str, kind: str, own: Sequence[str], other: Sequence[str]) -> None:
    row = next((i for i in range(len(own)) if own[i] != other[i]), None)
    if row is not None:
        raise ValueError(
            f"{lead} the {kind} {other[row]!r} in row {row}, the dataset {own[row]!r}; make them "
            "again from the same data"
        )


def find_environment(dataset: EnvironmentDataset, wanted: int | float | str | None) -> int | None:
    """The position of an environment given by name or, if there is none of that name, by position.

    >>> from equipoise.data import Examples
    >>> data = Examples([[0.0], [1.0]], [0, 1], ["rome", "oslo"])
    >>> find_environment(data, "rome"), find_environment(data, "0")
    (1, 0)
    """
    names = dataset.environment_names
    if wanted is None:
        return None
    if str(wanted) in names:
        return names.index(str(wanted))
    # A number such as 1.5 may be a name, but is no position.
    is_position = str(wanted).isdecimal() and int(str(wanted)) < len(names)
    if not is_position:
        listed = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
        raise ValueError(f"there is no test environment {wanted!r}; choose one of {listed}")
    return int(str(wanted))


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


# What decides a number: a change of any of these may change it.
ROOMS = ("data", "latent", "balance", "algorithms")
PARTS = ("data", "batches", "balancers", "training", "evaluation")  # of this room
NOT_CODE = ("__init__", "balance_job", "demo", "progress")


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
