"""A user's files, arrays or map-style dataset as environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.data import ArrayEnvironments, EnvironmentDataset, as_source, open_dataset
from equipoise.data.arrays import encode_names
from equipoise.data.sources import ArraySource, MapStyleSource


class MapStyleEnvironments(EnvironmentDataset):
    """Any dataset with `__len__` and `__getitem__`, with labels and environments of any type.

    An item is x, or a tuple that begins with x; it is fetched one by one, so give a run of
    slow items `num_workers`.
    """

    def __init__(self, dataset: Any, labels: ArrayLike, environments: ArrayLike) -> None:
        self._source = MapStyleSource(dataset)
        self.label_names, self.labels = encode_names(labels, "labels")
        self.environment_names, self.environments = encode_names(environments, "environments")
        if not len(dataset) == len(self.labels) == len(self.environments):
            raise ValueError(
                f"the dataset, labels and environments must be aligned, but have {len(dataset)}, "
                f"{len(self.labels)} and {len(self.environments)} entries"
            )
        if len(dataset) == 0:
            raise ValueError("the dataset is empty")
        self.input_shape = tuple(self.fetch(np.zeros(1, dtype=np.int64)).shape[1:])

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return self._source.fetch(indices).float()


def as_environments(
    x: Any, labels: ArrayLike | None = None, environments: ArrayLike | None = None
) -> EnvironmentDataset:
    """A dataset of ours as it is; arrays, tensors, data frames and map-style datasets wrapped.

    A path is opened (see `open_dataset`); `labels` and `environments` then name its columns.

    >>> as_environments([[0.0], [1.0]], ["cat", "dog"], ["rome", "oslo"])
    ArrayEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    if isinstance(x, EnvironmentDataset):
        return x
    if isinstance(x, str | Path):
        return open_dataset(x, label=_name(labels), environment=_name(environments))
    if labels is None or environments is None:
        raise ValueError("labels and environments are needed, unless x is an EnvironmentDataset")
    source = as_source(x)
    if isinstance(source, ArraySource):
        return ArrayEnvironments(source.x, labels, environments)
    return MapStyleEnvironments(x, labels, environments)


def _name(column: ArrayLike | None) -> str | None:
    if column is None or isinstance(column, str):
        return column
    raise ValueError(
        "with a path, labels and environments are names of its columns, got "
        f"{type(column).__name__}; open it with open_dataset to give others"
    )
