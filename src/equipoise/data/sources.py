"""Examples by whole index batches, from whatever a user has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.utils.data import IterableDataset

from equipoise.checks import check_choice, check_memory, check_type, show
from equipoise.data.dataset import EnvironmentDataset

BLOCK = 512


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
        if x.is_meta:
            raise ValueError("X is a tensor on the meta device, which holds no values")
        if x.layout is not torch.strided:
            raise ValueError(f"X is a tensor of the layout {x.layout}: make it dense, X.to_dense()")
        if x.dtype == torch.bool:
            x = x.float()
        if x.ndim < 2:
            raise ValueError(f"X must be [N, features] or [N, channels, h, w], got {(*x.shape,)}")
        if 0 in x.shape[1:]:
            raise ValueError(
                f"X has 0 feature(s) (shape={tuple(x.shape)}) while a minimum of 1 is required."
            )
        if x.is_complex() or x.is_quantized:
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
        try:
            items = [self.dataset[int(index)] for index in indices]
        except Exception as error:  # the user's own dataset may raise anything
            raise ValueError(
                f"an item of X, a {type(self.dataset).__name__}, cannot be read by its index: "
                f"{show(error)}"
            ) from error
        rows = [item[0] if isinstance(item, tuple | list) else item for item in items]
        if rows and isinstance(rows[0], dict):
            raise ValueError(
                f"items of the dataset are dictionaries of {', '.join(map(str, rows[0]))}: say "
                "which is what with label=…, environment=… and features=…"
            )
        return _stack(rows)


class ColumnSource(MapStyleSource):
    """Columns of a dataset of Hugging Face: one of arrays or images, or several of numbers."""

    def __init__(self, dataset: Any, columns: Sequence[str]) -> None:
        super().__init__(dataset.select_columns(list(columns)))
        self.feature_names = tuple(columns)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        batch = self.dataset[indices.tolist()]
        if len(self.feature_names) == 1:
            rows = [np.asarray(value) for value in batch[self.feature_names[0]]]
            if rows and rows[0].ndim == 3 and rows[0].shape[2] in (1, 3, 4):  # decoded pictures
                rows = [row.transpose(2, 0, 1) for row in rows]
            return _stack([np.atleast_1d(row) for row in rows])
        return _stack(list(zip(*(batch[name] for name in self.feature_names), strict=True)))


def _stack(rows: list[Any]) -> Tensor:
    """Items of one shape as a batch of numbers."""
    try:
        batch = torch.stack([torch.as_tensor(np.asarray(row)) for row in rows])
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            "items of the dataset must be x, or tuples that begin with x, where x is an array or "
            f"tensor of one shape for all; got {type(rows[0]).__name__} ({error})"
        ) from error
    if batch.ndim < 2:
        raise ValueError("items of the dataset are single numbers; expected an array for each")
    _check_channels_first(tuple(batch.shape[1:]))
    return batch.float() / 255.0 if batch.dtype == torch.uint8 else batch.float()


def as_source(x: Any) -> Source:
    """Wrap an array, a tensor, a data frame, a sparse matrix or a dataset."""
    if isinstance(x, EnvironmentDataset | ArraySource | MapStyleSource):
        return x
    if isinstance(x, Tensor):
        return ArraySource(x)
    if sparse.issparse(x):
        what = f"the sparse matrix of shape {x.shape} as a dense one"
        hint = "reduce it first, e.g. with sklearn.decomposition.TruncatedSVD"
        check_memory(what, math.prod(x.shape) * 8, hint=hint)
        return ArraySource(torch.from_numpy(x.toarray()))
    _refuse_streams(x)
    plain = hasattr(x, "__array__") or isinstance(x, list | tuple | dict | str | bytes | memoryview)
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not plain:
        return MapStyleSource(x)
    try:
        array = np.asarray(x)
        if array.dtype == object or array.dtype == np.longdouble:
            array = array.astype(np.float64)
        if array.dtype.kind not in "biuf":
            complex_ = ". Complex data not supported" if array.dtype.kind == "c" else ""
            raise TypeError(f"it holds {array.dtype}{complex_}")
        tensor = torch.from_numpy(np.require(array, requirements=("C", "W")))
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"X is not a table of numbers: {_tell_columns(x) or error}") from error
    return ArraySource(tensor)


def list_columns(X: Any) -> list[Any] | None:
    """Columns of a data frame of pandas or polars; None of anything else."""
    columns = getattr(X, "columns", None)
    if columns is not None and len(getattr(X, "shape", ())) == 2:
        named = hasattr(X, "column_names")  # of Arrow, where `columns` are the values
        return list(X.column_names if named else columns)
    return None


def take_columns(
    X: Any,
    y: Any,
    environments: Any,
    label: str | None,
    environment: str | None,
    features: Sequence[str] | str | None,
) -> tuple[Any, Any, Any]:
    """Features, labels and environments out of one table by the names of its columns."""
    _refuse_streams(X)
    hugging = hasattr(X, "column_names") and hasattr(X, "select_columns")
    there = list(X.column_names) if hugging else list_columns(X)
    if there is None:
        raise TypeError(
            "label, environment and features name columns of a data frame or of a dataset of "
            f"Hugging Face, got {show(type(X))}; of a file use equipoise.data.open_dataset"
        )
    if label is not None:
        y = X[check_choice("column label=", label, there)]
    if environment is not None:
        environments = X[check_choice("column environment=", environment, there)]
    if features is None:
        chosen = [name for name in there if name not in (label, environment)]
    else:
        check_type("features", features, (str, list, tuple, np.ndarray))
        chosen = np.ravel(features).tolist() if isinstance(features, np.ndarray) else list(features)
        chosen = [features] if isinstance(features, str) else chosen
        for name in chosen:
            check_choice("column features=", name, there)
    if not chosen:
        raise ValueError("there are no columns besides label and environment: features are missing")
    return ColumnSource(X, chosen) if hugging else X[chosen], y, environments


def _refuse_streams(x: Any) -> None:
    """What has no length or no index cannot be matched."""
    streams = isinstance(x, IterableDataset) or type(x).__name__ == "IterableDataset"
    if streams or (hasattr(x, "__iter__") and not hasattr(x, "__len__") and not np.isscalar(x)):
        raise TypeError(
            f"X is a {type(x).__name__}, which gives its examples one after another: matching "
            "needs each by its index. Load it as a map-style dataset (Hugging Face: "
            "streaming=False), or collect it in an array"
        )


IS_TEXT = (
    "turn text into numbers with pandas.get_dummies(X), or have equipoise.data.open_dataset read "
    "the table, which does"
)
IS_IDENTIFIER = "it looks like an identifier, so drop it"
IS_ODD = "drop it, or turn it into a number, such as days since a date"


def _tell_columns(x: Any) -> str:
    """Every column of a data frame that holds no numbers, with what to do; empty if there is none.

    A column whose texts hardly repeat is an identifier: indicators of it would say nothing.
    """
    told: dict[str, list[str]] = {}
    for name in list_columns(x) or ():
        values = list(x[name])
        odd = [value for value in values if not _is_number(value)]
        if not odd:
            continue
        if not isinstance(odd[0], str):
            told.setdefault(IS_ODD, []).append(f"its column {name!r} holds {show(odd[0])}")
        elif len(set(map(str, values))) > max(20, len(values) / 2):
            seen = f"its column {name!r} holds hardly a text twice, first {show(odd[0])}"
            told.setdefault(IS_IDENTIFIER, []).append(seen)
        else:
            told.setdefault(IS_TEXT, []).append(f"its column {name!r} holds {show(odd[0])}")
    return "; ".join(f"{', '.join(seen)}: {advice}" for advice, seen in told.items())


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _check_channels_first(shape: tuple[int, ...]) -> None:
    """Refuse images that have their colours last, as PIL and matplotlib give them."""
    if len(shape) == 3 and shape[2] in (1, 3, 4) and shape[0] > 4 and shape[1] > 4:
        raise ValueError(
            f"images must be [channels, height, width], but these look like [height, width, "
            f"channels]: {list(shape)}. Turn them, e.g. X.transpose(0, 3, 1, 2)"
        )


def tell_row(index: int | np.integer) -> str:
    """Where an example stands, counted from 1 and from 0, without the header of a table."""
    return f"in row {index + 1} (index {index})"


def shrink_examples(source: Source, indices: NDArray[np.int64], *, largest: int = 2048) -> Tensor:
    """Examples of at most `largest` values: images [B, c, h, w] are averaged over blocks.

    Others are [B, d], long vectors projected at random.

    >>> pictures = ArraySource(torch.ones(2, 3, 64, 64))
    >>> shrink_examples(pictures, np.arange(2)).shape
    torch.Size([2, 3, 26, 26])
    """
    blocks = np.split(indices, range(BLOCK, len(indices), BLOCK))
    return torch.cat([_shrink(source.fetch(block), largest) for block in blocks])


def flatten_examples(source: Source, indices: NDArray[np.int64]) -> Tensor:
    """Small examples, as of `shrink_examples`, as rows [B, d]."""
    return shrink_examples(source, indices).flatten(1)


def _shrink(x: Tensor, largest: int) -> Tensor:
    x = x.float().cpu()
    if x.ndim == 4 and x.shape[1] <= largest:
        if x[0].numel() <= largest:
            return x
        side = math.isqrt(largest // x.shape[1])
        height, width = (min(side, size) for size in x.shape[2:])
        return F.adaptive_avg_pool2d(x, (height, width))
    flat = x.flatten(1)
    if flat.shape[1] <= largest:
        return flat
    generator = torch.Generator().manual_seed(0)
    projection = torch.randn(flat.shape[1], largest // 4, generator=generator)
    return flat @ projection / math.sqrt(flat.shape[1])
