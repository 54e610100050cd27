"""What labels, environments and features are called, and further data put in the same terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.data.columns import Columns, check_column, find_codes, find_feature_names
from equipoise.data.environments import EnvironmentDataset, EnvironmentSubset

Names = tuple[str, ...]


@dataclass(frozen=True)
class DataNames:
    """Names in the order of the codes and of the columns; None where the data gave none."""

    labels: Names | None = None
    environments: Names | None = None
    features: Names | None = None

    def to_facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> DataNames:
        return cls(**{name: None if v is None else tuple(v) for name, v in facts.items()})


def find_names(
    X: Any, y: ArrayLike | None, environments: ArrayLike | None, columns: Columns
) -> DataNames:
    """The names that fitted data bring along; columns given as arrays name themselves.

    >>> from equipoise.data import ArrayEnvironments
    >>> data = ArrayEnvironments([[0.1], [0.2]], ["cat", "dog"], ["rome", "oslo"])
    >>> codes = Columns(np.arange(2), np.arange(2), data.labels, data.environments)
    >>> find_names(data, None, None, codes).environments
    ('oslo', 'rome')
    """
    return DataNames(
        _name_values(columns.classes, X if y is None else None, "label_names"),
        _name_values(
            columns.environments, X if environments is None else None, "environment_names"
        ),
        _find_spoken_features(X),
    )


def _name_values(values: NDArray, dataset: Any, attribute: str) -> Names | None:
    if values.dtype.kind == "U":
        return tuple(values.tolist())
    names = getattr(dataset, attribute, None)
    if names is None or len(set(names)) < len(names) or values.max() >= len(names):
        return None
    return tuple(str(names[code]) for code in values.tolist())


def _find_spoken_features(X: Any) -> Names | None:
    """Names of features that say which is which: a frame's mere column numbers do not."""
    if hasattr(X, "iloc") and not all(isinstance(name, str) for name in X.columns):
        return None
    names = find_feature_names(X)
    return None if names is None or len(set(names)) < len(names) else names


def encode_further(
    kind: str, given: ArrayLike, known: NDArray, names: Names | None, own: Sequence[str] | None
) -> NDArray[np.int64]:
    """Codes of further labels or environments, by name wherever both sides have names.

    `own` are the names of a dataset's codes, which say nothing about the codes of another;
    None if `given` is an array of the user's.

    >>> encode_further("environment", [0, 0], np.array([0, 1]), ("north", "south"), ["south"])
    array([1, 1])
    """
    values = check_column("y" if kind == "label" else "environments", given)
    if names is None:
        return find_codes(kind, values, known)
    if own is not None:
        values = np.asarray(own, dtype=str)[values]
    if values.dtype.kind != "U":
        return find_codes(kind, values, known)
    codes = pd.Index(names).get_indexer(values)
    unknown = dict.fromkeys(values[codes < 0].tolist())
    if unknown:
        raise ValueError(
            f"{kind} {_list(unknown)} was not seen when fitting; known: {_list(names)}"
        )
    return np.asarray(codes, dtype=np.int64)


def align_features(X: Any, names: Names | None) -> Any:
    """X with its columns in the fitted order; other columns than the fitted are a ValueError.

    Arrays, and all else without names of columns, are taken as they are.

    >>> list(align_features(pd.DataFrame({"b": [1.0], "a": [2.0]}), ("a", "b")).columns)
    ['a', 'b']
    """
    own = _find_spoken_features(X)
    if names is None or own is None or own == names:
        return X
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    if missing or unknown:
        said = [f"without {_list(missing)}"] if missing else []
        said += [f"with {_list(unknown)}, which was not fitted"] if unknown else []
        raise ValueError(
            f"these data have other features than the fitted {_list(names)}: they come "
            f"{' and '.join(said)}. Choose the same columns; a column of names has an indicator "
            "for each name in the file, so open one file that holds them all and take a subset"
        )
    if hasattr(X, "iloc"):
        return X[list(names)]
    return ReorderedFeatures(X, names, [own.index(name) for name in names])


class ReorderedFeatures(EnvironmentSubset):
    """All examples of a table, its columns in another order."""

    def __init__(self, parent: EnvironmentDataset, names: Names, order: Sequence[int]) -> None:
        super().__init__(parent, np.arange(len(parent)))
        self.feature_names, self._order = names, list(order)

    def fetch(self, indices: NDArray[np.int64]) -> Tensor:
        return super().fetch(indices)[:, self._order]

    def identify(self, indices: NDArray[np.int64]) -> list[bytes]:
        return EnvironmentDataset.identify(self, indices)


def _list(names: Sequence[str] | dict[str, None], at_most: int = 20) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:at_most])
    return shown + (f" and {len(names) - at_most} more" if len(names) > at_most else "")
