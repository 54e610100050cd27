"""Examples with labels, environments and names: one container for whatever a user has."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from equipoise.checks import check_array, show
from equipoise.data.dataset import EnvironmentDataset, EnvironmentSubset
from equipoise.data.sources import Source, as_source, list_columns, take_columns, tell_row

Names = tuple[str, ...]
Ints = NDArray[np.int64]

#: More classes than this are not learned: scores are an array [N, classes].
MOST_LABELS = 10_000
#: Of more environments than this, half should have at least so many examples.
MANY_SITES, FEW_EXAMPLES = 10, 10


@dataclass(frozen=True)
class DataNames:
    """What codes of labels and environments stand for, and what the features are called.

    `classes` and `sites` are the values a user gave, sorted; a code is a position among them.
    `labels`, `environments` and `features` are names in that order, None where the data have
    none: then further data are read by their values and by the order of their columns.
    """

    classes: NDArray
    sites: NDArray
    labels: Names | None = None
    environments: Names | None = None
    features: Names | None = None

    def to_facts(self) -> dict[str, Any]:
        """Plain values, as a JSON file has them."""
        return {**vars(self), "classes": self.classes.tolist(), "sites": self.sites.tolist()}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> DataNames:
        """The inverse of `to_facts`."""
        named = {name: facts.get(name) for name in ("labels", "environments", "features")}
        spoken = {name: None if found is None else tuple(found) for name, found in named.items()}
        return cls(np.asarray(facts["classes"]), np.asarray(facts["sites"]), **spoken)


class Examples(EnvironmentDataset):
    """Examples of any kind, with labels and environments of any type.

    `source` gives the examples in their own precision, `fetch` as float32. `labels` and
    `environments` are codes; `names` says what they stand for.

    Parameters
    ----------
    X : array, tensor, data frame, sparse matrix or map-style dataset
    labels, environments : array of numbers or text
        One value for each example, none missing.
    covariate : array, optional
        The true spurious covariate, for oracles and diagnostics.

    >>> data = Examples([[0.1], [0.2]], ["cat", "dog"], ["rome", "rome"])
    >>> data.label_names, data.environment_names
    (('cat', 'dog'), ('rome',))
    """

    def __init__(
        self,
        X: Any,
        labels: ArrayLike,
        environments: ArrayLike,
        *,
        covariate: ArrayLike | None = None,
    ) -> None:
        source = as_source(X)
        names, codes, sites = _encode_new(X, "labels", labels, environments)
        self._set(source, codes, sites, names, find_feature_names(X))
        if covariate is not None:
            self.covariate = np.asarray(covariate)

    def _set(
        self, source: Source, labels: Ints, environments: Ints, names: DataNames, own: Names | None
    ) -> None:
        if not len(source) == len(labels) == len(environments):
            raise ValueError(
                f"X, labels and environments must be aligned, but have {len(source)}, "
                f"{len(labels)} and {len(environments)} rows"
            )
        self.source, self.names = source, names
        self.labels, self.environments = labels, environments
        self.label_names = names.labels or tuple(str(value) for value in names.classes)
        self.environment_names = names.environments or tuple(str(value) for value in names.sites)
        self.feature_names = names.features or own
        if len(source):
            self.input_shape = tuple(source.fetch(np.zeros(1, dtype=np.int64)).shape[1:])
        else:
            self.input_shape = tuple(getattr(source, "input_shape", ()))
        if isinstance(source, EnvironmentDataset):
            self.paths = source.paths  # its covariate stays there: no estimator reads it

    def fetch(self, indices: Ints) -> Tensor:
        return self.source.fetch(indices).float()

    def identify(self, indices: Ints) -> list[bytes]:
        if isinstance(self.source, EnvironmentDataset):
            return self.source.identify(indices)
        return super().identify(indices)


def collect_examples(
    X: Any,
    y: ArrayLike | None = None,
    environments: ArrayLike | None = None,
    *,
    label: str | None = None,
    environment: str | None = None,
    features: Sequence[str] | str | None = None,
    names: DataNames | None = None,
) -> Examples:
    """Whatever a user gives to `fit`, as `Examples`.

    An `EnvironmentDataset` brings labels and environments along; of a data frame or a dataset of
    Hugging Face, `label`, `environment` and `features` (by default all others) name columns.
    `names` are those of a fit: further data are put in its terms, by name wherever both have
    names, and what it does not know is a ValueError.

    >>> frame = pd.DataFrame({"age": [40, 50], "ill": ["no", "yes"], "site": ["a", "b"]})
    >>> collect_examples(frame, label="ill", environment="site").names.features
    ('age',)
    """
    if not (label is environment is features is None):
        X, y, environments = take_columns(X, y, environments, label, environment, features)
    own_labels = own_sites = None
    if names is not None:
        X = align_features(X, names.features)
    if isinstance(X, EnvironmentDataset):
        own_labels = X.label_names if y is None else None
        own_sites = X.environment_names if environments is None else None
        y = X.labels if y is None else y
        environments = X.environments if environments is None else environments
    if y is None or environments is None:
        raise ValueError(
            "y and environments are needed, unless X is an EnvironmentDataset or a table whose "
            "columns are named by label=… and environment=…"
        )
    source = as_source(X)
    if names is not None:
        labels = _encode_further("label", y, names.classes, names.labels, own_labels)
        known = names.sites, names.environments, own_sites
        sites = _encode_further("environment", environments, *known)
    else:
        names, labels, sites = _encode_new(X, "y", y, environments, own_labels, own_sites)
        if len(labels) == 0:
            raise ValueError("X is empty: there is nothing to learn from")
    made = Examples.__new__(Examples)
    made._set(source, labels, sites, names, find_feature_names(X))
    return made


def check_for_balancing(examples: Examples) -> None:
    """Refuse labels and environments that cannot be told apart; warn where few can be."""
    labels, sites = examples.label_names, examples.environment_names
    n, m = len(examples), len(labels)
    if m > MOST_LABELS or (m > 100 and m > n / 2):
        raise ValueError(
            f"y has {m:,} different values in {n:,} examples: balancing needs classes that "
            f"repeat, {MOST_LABELS:,} at most. It looks like an identifier or a measurement: bin "
            "it, or choose another label"
        )
    if m < 2:
        raise ValueError(
            f"balancing needs two labels or more, but every example has the label {labels[0]!r}: "
            "one class"
        )
    if len(sites) < 2:
        raise ValueError(
            "Z can be told apart from the label only by its change between environments: two or "
            f"more are needed, but every example is of the environment {sites[0]!r}"
        )
    seen = np.zeros((m, len(sites)), dtype=bool)
    seen[examples.labels, examples.environments] = True
    if (seen.sum(axis=1) == 1).all():
        raise ValueError(
            "every label was seen in one environment only, so nothing tells label and "
            "environment apart; add environments that share labels"
        )
    if (seen.sum(axis=0) == 1).all():
        raise ValueError(
            "every environment has one label only, so no example has a match of another label; "
            "add environments that hold several"
        )
    sizes = np.bincount(examples.environments, minlength=len(sites))
    if len(sites) > MANY_SITES and np.median(sizes) < FEW_EXAMPLES:
        warnings.warn(
            f"there are {len(sites):,} environments in {n:,} examples, and most of them have fewer "
            f"than {FEW_EXAMPLES} examples, such as {sites[sizes.argmin()]!r} with {sizes.min()}. "
            "Examples are matched within their environment: join environments into groups, or "
            "choose another environment",
            stacklevel=3,
        )
    lonely = [labels[code] for code in np.flatnonzero(seen.sum(axis=1) == 1)]
    if lonely:
        warnings.warn(
            f"labels seen in one environment only: {list_quoted(lonely)}. They are matched "
            "there; anchors of other environments get no match of them",
            stacklevel=3,
        )


def check_column(name: str, values: ArrayLike) -> NDArray:
    """One value for every example, none of them missing; objects become text."""
    array: NDArray = check_array(name, values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {array.shape}")
    if array.dtype.kind in "cV":
        raise ValueError(f"{name} must hold numbers or text, got {array.dtype}")
    missing = np.flatnonzero(pd.isna(array))
    if len(missing):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(
            f"{name} has missing values, first {tell_row(missing[0])}{more}: remove those rows, "
            "or fill in a name such as 'unknown'"
        )
    if array.dtype == object:
        array = np.asarray(pd.Series(array).infer_objects())
    if array.dtype.kind not in "biuf":
        try:
            return array.astype(str)
        except Exception as error:  # bytes of an unknown encoding, or a str() of the user's own
            raise ValueError(
                f"{name} must hold numbers or text, got {show(array[0])}: {error}"
            ) from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} has infinite values: remove those rows")
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def find_feature_names(X: Any) -> Names | None:
    """The names of a data frame's columns, or those that a dataset knows; else None."""
    columns = list_columns(X)
    names = getattr(X, "feature_names", None) if columns is None else columns
    return None if names is None else tuple(str(name) for name in names)


def align_features(X: Any, names: Names | None) -> Any:
    """X with its columns in the fitted order, if they have names; others are a ValueError.

    >>> list(align_features(pd.DataFrame({"b": [1.0], "a": [2.0]}), ("a", "b")).columns)
    ['a', 'b']
    """
    own = _find_spoken_features(X)
    if names is None or own is None or own == names:
        return X
    missing = [name for name in names if name not in own]
    unknown = [name for name in own if name not in names]
    if missing or unknown:
        said = [f"without {list_quoted(missing)}"] if missing else []
        said += [f"with {list_quoted(unknown)}, which was not fitted"] if unknown else []
        raise ValueError(
            f"these data have other features than the fitted {list_quoted(names)}: they come "
            f"{' and '.join(said)}. Choose the same columns; a column of names has an indicator "
            "for each name in the file, so open one file that holds them all and take a subset"
        )
    if list_columns(X) is not None:
        return X[list(names)]
    return ReorderedFeatures(X, names, [own.index(name) for name in names])


class ReorderedFeatures(EnvironmentSubset):
    """All examples of a table, its columns in another order."""

    def __init__(self, parent: EnvironmentDataset, names: Names, order: Sequence[int]) -> None:
        super().__init__(parent, np.arange(len(parent)))
        self.feature_names, self._order = names, list(order)

    def fetch(self, indices: Ints) -> Tensor:
        return super().fetch(indices)[:, self._order]

    def identify(self, indices: Ints) -> list[bytes]:
        return EnvironmentDataset.identify(self, indices)


def list_some(names: Iterable[object], at_most: int = 5) -> str:
    """The first few names, and how many more there are."""
    listed = [str(name) for name in names]
    more = f" and {len(listed) - at_most} more" if len(listed) > at_most else ""
    return ", ".join(listed[:at_most]) + more


def list_quoted(names: Iterable[object]) -> str:
    """Up to twenty names in quotation marks."""
    return list_some((repr(name) for name in names), at_most=20)


def _encode_new(
    X: Any,
    word: str,
    labels: ArrayLike,
    environments: ArrayLike,
    own_labels: Names | None = None,
    own_sites: Names | None = None,
) -> tuple[DataNames, Ints, Ints]:
    """Names of all there is, and codes of labels (the argument `word`) and environments."""
    classes, label_codes = np.unique(check_column(word, labels), return_inverse=True)
    values = check_column("environments", environments)
    sites, site_codes = np.unique(values, return_inverse=True)
    check_classes(classes)
    check_classes(sites, "the environment", kind="environment")
    spelled = _spell(classes, own_labels), _spell(sites, own_sites)
    names = DataNames(classes, sites, *spelled, _find_spoken_features(X))
    return names, label_codes.astype(np.int64), site_codes.astype(np.int64)


def check_classes(values: NDArray, what: str = "the label", *, kind: str = "label") -> None:
    """Refuse labels or environments that are measurements."""
    odd = values[values != np.round(values)] if values.dtype.kind == "f" else values[:0]
    if len(odd):
        raise ValueError(
            f"{what} looks continuous: it holds fractions such as {odd[0]:g}. Bin it, or choose "
            f"another {kind}: text or whole numbers"
        )


def _spell(values: NDArray, own: Sequence[str] | None = None) -> Names | None:
    """Names of values that are text, or codes of a dataset that names them."""
    if values.dtype.kind == "U":
        return tuple(values.tolist())
    if own is None or len(set(own)) < len(own) or values.max(initial=0) >= len(own):
        return None
    return tuple(str(own[code]) for code in values.tolist())


def _find_spoken_features(X: Any) -> Names | None:
    """Names of features that say which is which: a frame's mere column numbers do not."""
    columns = list_columns(X)
    if columns is not None and not all(isinstance(name, str) for name in columns):
        return None
    names = find_feature_names(X)
    return None if names is None or len(set(names)) < len(names) else names


def _encode_further(
    kind: str, given: ArrayLike, known: NDArray, names: Names | None, own: Sequence[str] | None
) -> Ints:
    """Codes of further labels or environments; `own` are the names of a dataset's codes."""
    values = check_column("y" if kind == "label" else "environments", given)
    if names is not None and own is not None:
        values = np.asarray(own, dtype=str)[values]
    terms = list(names) if names is not None and values.dtype.kind == "U" else known.tolist()
    codes = pd.Index(terms).get_indexer(pd.Index(values))
    unknown = dict.fromkeys(values[codes < 0].tolist())
    if unknown:
        raise ValueError(
            f"{kind} {list_quoted(unknown)} was not seen when fitting; known: {list_quoted(terms)}"
        )
    return np.asarray(codes, dtype=np.int64)
