"""Given covariates -> a design matrix: numbers, categories and what is missing, all counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.scores import as_array
from equipoise.checks import show

#: A category of fewer examples, or beyond this many categories, is pooled with other rare ones.
MIN_CATEGORY = 5
MAX_CATEGORIES = 64
#: Squares of larger numbers, and sums of them, are no numbers any more.
LARGEST = 1e100

#: A covariate that leaves less than this share of the errors predicts the label "almost perfectly".
NEARLY_PERFECT = 0.02
_BINS = 32
_MANY_ROWS = 100


@dataclass(frozen=True)
class Covariate:
    """How one given covariate is encoded; plain values only, so that it can be stored as JSON."""

    name: str
    kind: str  # "number", "category" or "constant"
    center: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()  # each has a column; other values share the column "other"
    has_missing: bool = False
    pooled: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns in the design matrix."""
        if self.kind == "constant":
            return ()
        missing = (f"{self.name} missing",) if self.has_missing else ()
        if self.kind == "number":
            return (self.name, *missing)
        named = tuple(f"{self.name}={value}" for value in self.categories)
        return (*named, *((f"{self.name}=other",) if self.pooled else ()), *missing)

    def encode(self, values: pd.Series) -> FloatArray:
        """Columns [N, len(columns)] of one covariate; missing numbers stand at the median."""
        if self.kind == "constant":
            return np.empty((len(values), 0))
        missing = values.isna().to_numpy()
        if self.kind == "number":
            numbers = pd.to_numeric(values, errors="coerce").to_numpy(np.float64)
            if (~np.isfinite(numbers) & ~missing).any():
                row = int(np.flatnonzero(~np.isfinite(numbers) & ~missing)[0])
                raise ValueError(
                    f"covariate {self.name!r} is a number, got {values.iloc[row]!r} in row {row}"
                )
            parts = [np.where(missing, 0.0, (numbers - self.center) / self.scale)[:, None]]
        else:
            codes = pd.Index(self.categories).get_indexer(_as_text(values))
            codes = np.where((codes < 0) & ~missing, len(self.categories), codes)
            parts = [np.asarray(codes[:, None] == np.arange(len(self.categories) + self.pooled))]
        if self.has_missing:
            parts.append(missing[:, None])
        return np.hstack(parts).astype(np.float64)


@dataclass(frozen=True)
class Encoding:
    """How given covariates become columns; `notes` say what was dropped, pooled or missing.

    >>> table = pd.DataFrame({"age": [30.0, None, 50.0], "sex": ["f", "m", "f"]})
    >>> made = Encoding.learn(table)
    >>> made.columns
    ('age', 'age missing', 'sex=f', 'sex=m')
    >>> made.encode(table).round(2).tolist()
    [[-1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]]
    """

    covariates: tuple[Covariate, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def learn(cls, covariates: Any, environments: IntArray | None = None) -> Encoding:
        """Choose each covariate's encoding; `environments` name where one is missing."""
        table = as_table(covariates)
        notes: list[str] = []
        made = tuple(_learn(table[name], environments, notes) for name in table.columns)
        if not any(covariate.columns for covariate in made):
            raise ValueError(
                f"no covariate varies: {', '.join(map(repr, table.columns))} have one value each; "
                "give a covariate with at least two values"
            )
        return cls(made, tuple(notes))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(covariate.name for covariate in self.covariates)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for covariate in self.covariates for column in covariate.columns)

    @property
    def numbers(self) -> IntArray:
        """Which columns are numbers, rather than 0 or 1."""
        names = {covariate.name for covariate in self.covariates if covariate.kind == "number"}
        return np.flatnonzero([column in names for column in self.columns])

    def encode(self, covariates: Any) -> FloatArray:
        """The design matrix [N, columns] of these or of further examples."""
        table = as_table(covariates, self.names)
        return np.hstack([covariate.encode(table[covariate.name]) for covariate in self.covariates])

    def state(self) -> list[dict[str, Any]]:
        """Plain values for a JSON file; `from_state` reads them."""
        return [asdict(covariate) for covariate in self.covariates]

    @classmethod
    def from_state(cls, state: Sequence[dict[str, Any]]) -> Encoding:
        return cls(
            tuple(Covariate(**{**item, "categories": tuple(item["categories"])}) for item in state)
        )


def as_table(covariates: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Covariates as a data frame with one column each; `names` are those that must be there."""
    if isinstance(covariates, pd.DataFrame):
        table = covariates.rename(columns=str)
    elif isinstance(covariates, pd.Series):
        table = covariates.to_frame(str(covariates.name or "covariate 0"))
    else:
        array = as_array(covariates)
        if array.dtype.kind not in "fiubOUSmM":
            raise TypeError(f"covariates must be numbers, text or dates, got dtype {array.dtype}")
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2:
            raise ValueError(f"covariates must have shape [N, p], got {array.shape}")
        own = names if names is not None and len(names) == array.shape[1] else None
        columns = [f"covariate {i}" for i in range(array.shape[1])] if own is None else own
        table = pd.DataFrame(array, columns=list(columns)).infer_objects()
    if table.columns.duplicated().any():
        raise ValueError(
            f"two covariates are called {table.columns[table.columns.duplicated()][0]!r}"
        )
    for name, kind in zip(table.columns, table.dtypes, strict=True):
        if isinstance(kind, np.dtype) and (not kind.isnative or kind == np.float16):
            table = table.astype({name: np.float64 if kind.kind == "f" else kind.newbyteorder("=")})
    if table.empty:
        raise ValueError(f"covariates are empty: got {len(table)} rows, {table.shape[1]} columns")
    if names is not None:
        absent = [name for name in names if name not in table]
        if absent:
            raise ValueError(
                f"covariate {absent[0]!r} is missing; the scores were fitted with: "
                f"{', '.join(map(repr, names))}"
            )
        table = table[list(names)]
    return table


def check_alignment(covariates: Any, labels: Any, n: int) -> None:
    """One row of covariates for each label, in the same order where both have an index."""
    rows = len(covariates) if hasattr(covariates, "__len__") else 1
    if rows != n:
        raise ValueError(f"covariates have {rows} rows, labels {n}: give one row for each example")
    indexed = isinstance(covariates, pd.DataFrame | pd.Series) and isinstance(labels, pd.Series)
    if indexed and not covariates.index.equals(labels.index):
        raise ValueError(
            "covariates and labels have different indexes, so their rows may not belong together; "
            "align them first, e.g. covariates.loc[labels.index]"
        )


def _as_text(values: pd.Series) -> pd.Index:
    try:
        return pd.Index(values.astype(object).map(str, na_action="ignore"))
    except Exception as error:  # a str() of the user's own may raise anything
        raise ValueError(
            f"covariate {values.name!r} holds {show(values.iloc[0])}, which is no text: {error}"
        ) from error


def _learn(values: pd.Series, environments: IntArray | None, notes: list[str]) -> Covariate:
    name, missing = str(values.name), values.isna().to_numpy()
    present, any_missing = values[~missing], bool(missing.any())
    try:
        n_values = present.nunique()
    except TypeError as error:  # lists have no hash
        raise ValueError(
            f"covariate {name!r} holds {show(present.iloc[0])}; expected numbers, text or dates"
        ) from error
    if any_missing:
        kind = "with an indicator" if _is_number(values) else "as a category of its own"
        count = f"{int(missing.sum()):,} of {len(values):,}"
        notes.append(f"{name}: {count} values are missing, kept {kind}")
        notes += [
            f"{name}: missing throughout environment {code}, so it cannot be balanced there"
            for code in (np.unique(environments) if environments is not None else ())
            if missing[environments == code].all()
        ]
    if n_values + any_missing < 2:
        notes.append(f"{name}: has one value only, left out")
        return Covariate(name, "constant")
    if _is_number(values):
        numbers = present.to_numpy(np.float64)
        if np.isinf(numbers).any():
            raise ValueError(
                f"covariate {name!r} has {int(np.isinf(numbers).sum()):,} infinite values; replace "
                "them by numbers or by missing values"
            )
        if np.abs(numbers).max() > LARGEST:
            raise ValueError(
                f"covariate {name!r} has values as large as {np.abs(numbers).max():.3g}; divide it "
                "by a power of ten, or replace them"
            )
        center = float(np.median(numbers)) if any_missing else float(numbers.mean())
        scale = float(numbers.std()) or 1.0
        return Covariate(name, "number", center, scale, has_missing=any_missing)
    if n_values == len(present) and len(present) > 2 * MIN_CATEGORY:
        raise ValueError(
            f"covariate {name!r} has a different value in each of its {n_values:,} rows, like an "
            "identifier: nothing can be balanced on it; leave it out"
        )
    counts = _as_text(present).value_counts()
    least = MIN_CATEGORY if len(present) >= _MANY_ROWS else 1
    common = counts[counts >= least].index[:MAX_CATEGORIES]
    rare = len(counts) - len(common)
    if rare:
        share = 1 - counts[common].sum() / len(present)
        notes.append(
            f"{name}: {rare:,} of {len(counts):,} categories are pooled as 'other' "
            f"({share:.1%} of the rows); ask for an exact match to keep them apart"
        )
    if not len(common):
        raise ValueError(
            f"covariate {name!r} has {len(counts):,} categories, none with {MIN_CATEGORY} rows: "
            "group its values, or leave it out"
        )
    categories = tuple(sorted(map(str, common)))
    return Covariate(name, "category", 0.0, 1.0, categories, any_missing, bool(rare))


def _is_number(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)


def find_leaks(covariates: Any, labels: IntArray) -> tuple[str, ...]:
    """Sentences on covariates that predict the label almost perfectly, or follow from it."""
    table, found = as_table(covariates), []
    counts = np.bincount(labels)
    majority_errors = len(labels) - counts.max()
    for name in table.columns:
        values = table[name]
        if _is_number(values) and values.nunique() > _BINS:
            values = pd.qcut(values, _BINS, labels=False, duplicates="drop")
        codes, levels = pd.factorize(values, use_na_sentinel=False)
        if len(levels) < 2 or len(levels) > len(labels) / 4:
            continue
        cells = np.zeros((len(levels), len(counts)), dtype=np.int64)
        np.add.at(cells, (codes, labels), 1)
        errors = len(labels) - cells.max(axis=1).sum()
        if ((cells > 0).sum(axis=0) <= 1).all():
            found.append(f"{name!r} is a function of the label")
        elif errors <= NEARLY_PERFECT * majority_errors:
            found.append(f"{name!r} predicts the label for {1 - errors / len(labels):.1%} of rows")
    return tuple(found)
