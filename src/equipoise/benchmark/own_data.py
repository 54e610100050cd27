"""A user's arrays or map-style dataset as environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.data import ArrayEnvironments, EnvironmentDataset, as_source
from equipoise.data.sources import ArraySource, MapStyleSource


class MapStyleEnvironments(EnvironmentDataset):
    """Any dataset with `__len__` and `__getitem__`, with labels and environments of any type.

    An item is x, or a tuple that begins with x; it is fetched one by one, so give a run of
    slow items `num_workers`.
    """

    def __init__(self, dataset: Any, labels: ArrayLike, environments: ArrayLike) -> None:
        self._source = MapStyleSource(dataset)
        label_names, self.labels = _encode(labels)
        environment_names, self.environments = _encode(environments)
        if not len(dataset) == len(self.labels) == len(self.environments):
            raise ValueError(
                f"the dataset, labels and environments must be aligned, but have {len(dataset)}, "
                f"{len(self.labels)} and {len(self.environments)} entries"
            )
        if len(dataset) == 0:
            raise ValueError("the dataset is empty")
        self.label_names, self.environment_names = label_names, environment_names
        self.input_shape = tuple(self.fetch(np.zeros(1, dtype=np.int64)).shape[1:])

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return self._source.fetch(indices).float()


def as_environments(
    x: Any, labels: ArrayLike | None = None, environments: ArrayLike | None = None
) -> EnvironmentDataset:
    """A dataset of ours as it is; arrays, tensors, data frames and map-style datasets wrapped.

    >>> as_environments([[0.0], [1.0]], ["cat", "dog"], ["rome", "oslo"])
    ArrayEnvironments(2 examples of shape (1,), 2 labels, 2 environments)
    """
    if isinstance(x, EnvironmentDataset):
        return x
    if labels is None or environments is None:
        raise ValueError("labels and environments are needed, unless x is an EnvironmentDataset")
    source = as_source(x)
    if isinstance(source, ArraySource):
        return ArrayEnvironments(source.x, labels, environments)
    return MapStyleEnvironments(x, labels, environments)


def _encode(values: ArrayLike) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    names, codes = np.unique(np.asarray(values), return_inverse=True)
    return tuple(str(name) for name in names), codes.astype(np.int64)
