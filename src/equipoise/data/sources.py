"""Examples by whole index batches, from whatever a user has."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.data.environments import EnvironmentDataset
from equipoise.data.row_numbers import tell_row


class Source(Protocol):
    """Anything that gives examples [B, …] as floating-point numbers for an index batch."""

    def __len__(self) -> int: ...

    def fetch(self, indices: NDArray[np.int64]) -> Tensor: ...


class ArraySource:
    """An array or tensor in memory. uint8 is taken for pixels and scaled to 0…1.

    Numbers of a table keep double precision until the model has standardised them.
    """

    def __init__(self, x: Tensor) -> None:
        x = x.detach()
        if x.dtype == torch.bool:
            x = x.float()
        if x.ndim < 2:
            raise ValueError(
                f"X must be [N, features] or [N, channels, h, w], got {tuple(x.shape)}"
            )
        if x.is_complex():
            raise ValueError(f"X must hold real numbers, got {x.dtype}")
        if x.is_floating_point() and not bool(torch.isfinite(x).all()):
            row = int((~torch.isfinite(x)).flatten(1).any(1).nonzero()[0])
            raise ValueError(
                f"X has a NaN or infinite value, first {tell_row(row)}: remove or impute it"
            )
        _check_channels_first(tuple(x.shape[1:]))
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        rows = self.x[torch.from_numpy(indices)]
        if rows.dtype == torch.uint8:
            return rows.float() / 255.0
        return rows.double() if rows.ndim == 2 and rows.dtype != torch.float32 else rows.float()


class MapStyleSource:
    """Any map-style dataset; an item is x, or a tuple that begins with x."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        items = [self.dataset[int(index)] for index in indices]
        rows = [item[0] if isinstance(item, tuple | list) else item for item in items]
        try:
            batch = torch.stack([torch.as_tensor(np.asarray(row)) for row in rows])
        except (TypeError, RuntimeError) as error:
            raise ValueError(
                "items of the dataset must be x, or tuples that begin with x, where x is an array "
                f"or tensor of one shape for all; got {type(rows[0]).__name__} ({error})"
            ) from error
        _check_channels_first(tuple(batch.shape[1:]))
        return batch.float() / 255.0 if batch.dtype == torch.uint8 else batch.float()


def as_source(x: Any) -> Source:
    """Wrap an array, a tensor, a data frame or a dataset.

    >>> as_source(np.array([[51, 255]], dtype=np.uint8)).fetch(np.array([0]))
    tensor([[0.2000, 1.0000]])
    """
    if isinstance(x, EnvironmentDataset):
        return x
    if isinstance(x, Tensor):
        return ArraySource(x)
    if (
        hasattr(x, "__getitem__")
        and not hasattr(x, "__array__")
        and not isinstance(x, list | tuple)
    ):
        return MapStyleSource(x)
    try:
        array = np.asarray(x)
        if array.dtype == object:
            array = array.astype(np.float64)
        tensor = torch.from_numpy(np.ascontiguousarray(array))
    except (TypeError, ValueError) as error:
        text = _find_text(x)
        if text is None:
            raise ValueError(f"X is not a table of numbers: {error}") from error
        raise ValueError(
            f"X is not a table of numbers: its column {text[0]!r} holds {text[1]!r}. Turn text "
            "into numbers with pandas.get_dummies(X), or have equipoise.data.open_dataset read "
            "the table, which does"
        ) from error
    return ArraySource(tensor)


def _find_text(x: Any) -> tuple[str, str] | None:
    """The first column of a data frame that holds text which is no number, and that text."""
    for name, column in x.items() if hasattr(x, "iloc") and x.ndim == 2 else ():
        for value in column:
            try:
                float(value)
            except (TypeError, ValueError):
                if isinstance(value, str):
                    return str(name), value
    return None


def _check_channels_first(shape: tuple[int, ...]) -> None:
    """Refuse images that have their colours last, as PIL and matplotlib give them."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] > 4 and shape[1] > 4:
        raise ValueError(
            f"images must be [channels, height, width], but these look like [height, width, "
            f"channels]: {list(shape)}. Turn them, e.g. X.transpose(0, 3, 1, 2)"
        )
