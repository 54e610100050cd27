"""The one contract of the package: examples, and two aligned integer arrays."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from equipoise.checks import check_array, check_number, check_seed, show

FINGERPRINT_BLOCK = 256


class EnvironmentDataset(Dataset[tuple[Tensor, Any]], ABC):
    """A map-style dataset with aligned `labels` and `environments`.

    `dataset[i]` is one `(x, y)`; `dataset[[i, j, …]]` is a whole batch, fetched at once, so
    `DataLoader(dataset, sampler=batch_sampler, batch_size=None)` never loops over examples.
    `covariate` is the true spurious covariate where it is known: for oracles and diagnostics
    only, no estimator reads it. `feature_names` are the columns of a table, `role_names` those of
    its label and environment, `paths` the files of the examples; None where there are none.
    """

    labels: NDArray[np.int64]
    environments: NDArray[np.int64]
    label_names: tuple[str, ...]
    environment_names: tuple[str, ...]
    input_shape: tuple[int, ...]
    covariate: NDArray[np.int64] | None = None
    covariate_name: str = "covariate"
    feature_names: tuple[str, ...] | None = None
    role_names: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None

    @abstractmethod
    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        """Examples as one float32 tensor [B, *input_shape]."""

    def identify(self, indices: NDArray[np.int64]) -> list[bytes]:
        """For each example, bytes that no other example has: its numbers, or a digest of them.

        Caches and runs tell by them whether they have seen an example. A dataset that knows
        the files its examples come from need not read them all again.
        """
        return [np.ascontiguousarray(row).tobytes() for row in self.fetch(indices).numpy()]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int | Sequence[int] | NDArray[np.int64]) -> tuple[Tensor, Any]:
        indices = np.asarray(index, dtype=np.int64)
        if indices.ndim == 0:
            return self.fetch(indices[None])[0], int(self.labels[indices])
        return self.fetch(indices), torch.from_numpy(self.labels[indices])

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
        x, y = self[indices]
        return list(zip(x, y.tolist(), strict=True))

    def _adopt(
        self, other: EnvironmentDataset, rows: NDArray[np.int64] | slice = slice(None)
    ) -> None:
        """Take over what another dataset says about these rows, but not their numbers."""
        self.labels, self.environments = other.labels[rows], other.environments[rows]
        self.label_names, self.environment_names = other.label_names, other.environment_names
        self.covariate = None if other.covariate is None else other.covariate[rows]
        self.covariate_name, self.feature_names = other.covariate_name, other.feature_names
        self.role_names = other.role_names
        if other.paths is not None:
            self.paths = tuple(other.paths[i] for i in np.arange(len(other))[rows])

    @property
    def n_labels(self) -> int:
        return len(self.label_names)

    @property
    def n_environments(self) -> int:
        return len(self.environment_names)

    def subset(self, indices: ArrayLike) -> EnvironmentSubset:
        """The examples at `indices`, in that order, numbered anew from 0.

        >>> from equipoise.data import Examples
        >>> data = Examples([[0.0], [1.0], [2.0]], [0, 1, 0], [0, 0, 1])
        >>> data.subset([2, 0]).labels
        array([0, 0])
        """
        return EnvironmentSubset(self, np.asarray(indices, dtype=np.int64))

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self)} examples of shape {self.input_shape}, "
            f"{self.n_labels} labels, {self.n_environments} environments)"
        )


class EnvironmentSubset(EnvironmentDataset):
    """Some examples of another dataset; what is not among them cannot be reached through it."""

    def __init__(self, parent: EnvironmentDataset, indices: NDArray[np.int64]) -> None:
        self.parent, self.indices = parent, indices
        self.input_shape = parent.input_shape
        self._adopt(parent, indices)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return self.parent.fetch(self.indices[indices])

    def identify(self, indices: NDArray[np.int64]) -> list[bytes]:
        return self.parent.identify(self.indices[indices])


@dataclass(frozen=True)
class Split:
    """Sorted example indices of the two parts; together they are everything, once."""

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]


def split_environments(
    environments: ArrayLike, *, held_out: float = 0.2, data_seed: int = 0
) -> Split:
    """Hold out a share of every environment. Depends on the data seed alone, never on a run's.

    >>> split = split_environments([0] * 10 + [1] * 5)
    >>> len(split.train), len(split.held_out)
    (12, 3)
    """
    check_number("held_out", held_out)
    if not 0.0 < held_out < 1.0:
        raise ValueError(f"held_out must be a share between 0 and 1, got {held_out}")
    check_seed("data_seed", data_seed)
    codes = check_array("environments", environments)
    if codes.ndim != 1 or not len(codes) or codes.dtype.kind not in "biufUS":
        raise ValueError(
            f"environments must be one number or name for each example, got {show(environments)}"
        )
    parts = []
    for position, environment in enumerate(np.unique(codes)):
        members = np.flatnonzero(codes == environment)
        generator = np.random.default_rng([data_seed, position, 0x5711])
        parts.append(generator.permutation(members)[: round(held_out * len(members))])
    out = np.sort(np.concatenate(parts))
    train = np.setdiff1d(np.arange(len(codes)), out, assume_unique=True)
    return Split(train=train, held_out=out)


def fingerprint_data(dataset: EnvironmentDataset) -> str:
    """Sixteen hexadecimal digits from labels, environments, names and every example.

    >>> from equipoise.data import Examples
    >>> one = Examples([[0.0], [1.0]], [0, 1], [0, 0])
    >>> two = Examples([[0.0], [2.0]], [0, 1], [0, 0])
    >>> fingerprint_data(one) == fingerprint_data(two)
    False
    """
    digest = hashlib.sha256()
    facts = [dataset.label_names, dataset.environment_names, dataset.input_shape]
    digest.update(json.dumps(facts).encode())
    digest.update(np.ascontiguousarray(dataset.labels).tobytes())
    digest.update(np.ascontiguousarray(dataset.environments).tobytes())
    for content in identify_all(dataset):
        digest.update(content)
    return digest.hexdigest()[:16]


def identify_all(dataset: EnvironmentDataset) -> Iterator[bytes]:
    """`identify` of every example, some at a time."""
    for start in range(0, len(dataset), FINGERPRINT_BLOCK):
        yield from dataset.identify(np.arange(len(dataset))[start : start + FINGERPRINT_BLOCK])
