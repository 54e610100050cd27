"""Arrays a user already has, as environments."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.data.environments import EnvironmentDataset
from equipoise.data.sources import ArraySource


class ArrayEnvironments(EnvironmentDataset):
    """Feature vectors or images in memory, with labels and environments of any type.

    >>> data = ArrayEnvironments([[0.1], [0.2]], ["cat", "dog"], ["rome", "rome"])
    >>> data.label_names, data.environment_names
    (('cat', 'dog'), ('rome',))
    """

    def __init__(
        self,
        x: ArrayLike | Tensor,
        labels: ArrayLike,
        environments: ArrayLike,
        *,
        covariate: ArrayLike | None = None,
    ) -> None:
        self._source = ArraySource(x if isinstance(x, Tensor) else torch.from_numpy(np.asarray(x)))
        self.label_names, self.labels = encode_names(labels, "labels")
        self.environment_names, self.environments = encode_names(environments, "environments")
        lengths = {len(self._source), len(self.labels), len(self.environments)}
        if len(lengths) != 1:
            raise ValueError(
                f"x, labels and environments must be aligned, but have {len(self._source)}, "
                f"{len(self.labels)} and {len(self.environments)} rows"
            )
        self.input_shape = tuple(self._source.x.shape[1:])
        if covariate is not None:
            self.covariate = np.asarray(covariate)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return self._source.fetch(indices).float()


def encode_names(values: ArrayLike, what: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The sorted distinct values as text, and every value's position among them.

    >>> encode_names([10, 9, 10], "labels")
    (('9', '10'), array([1, 0, 1]))
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what} must be one-dimensional, but has shape {array.shape}")
    names, codes = np.unique(array, return_inverse=True)
    return tuple(str(name) for name in names), codes.astype(np.int64)
