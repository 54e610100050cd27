"""A CSV or Parquet table, or the arrays of an NPZ file, as environments."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_float_dtype, is_numeric_dtype

from equipoise.checks import check_choice, check_memory, require, show
from equipoise.data.examples import Examples, check_classes, check_column, list_quoted
from equipoise.data.folders import ManifestEnvironments
from equipoise.data.sources import tell_row
from equipoise.files import check_regular, list_arrays, read_array

# What is looked for where nobody said: the first of these that is there.
LABELS = ("label", "labels", "y")
ENVIRONMENTS = ("environment", "environments", "env")
FEATURES = ("x", "X", "features")
# Numbers that no reader takes for numbers: 1,000 and 1,5; 20 %; $5 and 5 €.
WRITTEN_NUMBER = r"\s*[-+]?(?:[$€£]\s?\d[\d,.' ]*|\d[\d,.' ]*\s?[%$€£]|\d+(?:,\d+)+(?:\.\d+)?)\s*"


class TableEnvironments(Examples):
    """The rows of a table; `feature_names` are the columns that became numbers of an example."""

    feature_names: tuple[str, ...]


def read_table(
    path: str | Path,
    *,
    label: str | None = None,
    environment: str | None = None,
    features: Sequence[str] | None = None,
) -> TableEnvironments:
    """Read a .csv or .parquet file with a label, an environment and columns of features.

    A column of numbers is one feature; a column of up to 50 names becomes an indicator for each.
    What looks like an identifier is taken with a warning, unless `features` are named.
    """
    path = Path(path)
    table = _read_rows(path)
    label, environment = roles = _choose_roles(path, table, label, environment)
    if features is None:
        features = [str(name) for name in table.columns if name not in roles]
        _warn_of_identifiers(path, table[features])
    for name in features:
        check_choice(f"column of {path}", name, table)
        if name in roles:
            raise ValueError(f"{name!r} cannot be a feature of {path}: it says what an example is")
    if not features:
        raise ValueError(
            f"{path} has no columns besides {label!r} and {environment!r}: features are missing"
        )
    labels, sites = _read_roles(path, table, *roles)
    names, columns = list[str](), list[NDArray[np.float64]]()
    problems = _find_odd_columns(path, table[list(features)])
    for name in features:
        if name in problems:
            continue
        present = table[name].dropna()
        is_text = is_category(present)
        if len(present) < len(table) and not is_text:
            continue  # its missing cells are told below
        try:
            if is_text:
                some, values = expand_category(path, present, name)
            else:
                some, values = [name], _read_numbers(path, present, name)[:, None]
        except ValueError as error:
            problems[name] = str(error)
            continue
        names += some
        columns.append(values)
    _refuse_problems(path, [*problems.values(), *_find_missing(path, table[list(features)])])
    data = TableEnvironments(np.concatenate(columns, axis=1), labels, sites)
    data.feature_names, data.role_names = tuple(names), roles
    return data


def read_manifest(
    manifest: Path,
    *,
    path: str,
    label: str | None = None,
    environment: str | None = None,
    **settings: Any,
) -> ManifestEnvironments:
    """Read a .csv or .parquet file that names images in its column `path`."""
    table = _read_rows(manifest)
    check_choice(f"column of {manifest}", path, table)
    roles = _choose_roles(manifest, table, label, environment)
    if len({path, *roles}) < 3:
        raise ValueError("path, label and environment must be three columns")
    _check_cells(manifest, table[[path]])
    labels, sites = _read_roles(manifest, table, *roles)
    further = table.drop(columns=list(roles))
    return ManifestEnvironments(manifest, further, labels, sites, path=path, **settings)


def read_images(manifest: Path, *, path: str, image_size: Sequence[int]) -> ManifestEnvironments:
    """Read the images that a table names, for a model to predict: no label is needed."""
    table = _read_rows(manifest)
    check_choice(f"column of {manifest}", path, table)
    _check_cells(manifest, table[[path]])
    unknown = np.full(len(table), "unknown")
    return ManifestEnvironments(manifest, table, unknown, unknown, path=path, image_size=image_size)


def read_features(
    path: str | Path, names: Sequence[str], roles: Sequence[str] = ()
) -> pd.DataFrame:
    """The columns of a further table that are called as the fitted features, in their order.

    A feature called "sex = m" may also be told by a column "sex". Columns called as the fitted
    label and environment, `roles`, are left out, which is said; other columns are refused.
    """
    path = Path(path)
    table = read_frame(path)
    parents = {name: name.rpartition(" = ") for name in names if name not in table}
    missing = [name for name, (column, _, _) in parents.items() if column not in table]
    used = {column for column, _, _ in parents.values()} | set(names)
    others = [name for name in table if name not in used]
    unknown = [name for name in others if name not in roles]
    if missing or unknown:
        said = [f"has no column {list_quoted(missing)}"] if missing else []
        said += [f"has {list_quoted(unknown)}, which the model does not know"] if unknown else []
        raise ValueError(
            f"{path} {' and '.join(said)}; give the columns that it was trained on: "
            f"{list_quoted(names)}"
        )
    if others:
        warnings.warn(
            f"left out of {path}: {list_quoted(others)}, the label or environment in training",
            stacklevel=3,
        )
    table = table.drop(columns=others)
    _check_cells(path, table)
    _warn_of_new_names(path, table, [(column, value) for column, _, value in parents.values()])
    columns = {}
    for name in names:
        if name in parents:
            column, _, value = parents[name]
            columns[name] = (table[column].astype(str) == value).to_numpy(dtype=np.float64)
        else:
            columns[name] = _read_numbers(path, table[name], name)
    return pd.DataFrame(columns)


def _warn_of_new_names(path: Path, table: pd.DataFrame, known: Sequence[tuple[str, str]]) -> None:
    """Say which names of a category (column, name) were not there in training.

    Of two names one has an indicator, and the other's is not known.
    """
    for column in dict.fromkeys(column for column, _ in known):
        names = {name for other, name in known if other == column}
        new = sorted(set(table[column].astype(str)) - names)
        if len(names) > 1 and new:
            warnings.warn(
                f"column {column!r} of {path} holds {list_quoted(new)}, which was not there in "
                "training: predictions for those rows are a guess",
                stacklevel=4,
            )


def read_arrays(
    path: str | Path,
    *,
    label: str | None = None,
    environment: str | None = None,
    features: str | None = None,
) -> Examples:
    """Read an .npz file: examples `x` [N, …], and their labels `y` and environments."""
    path = Path(path)
    names = list_arrays(path)
    features = _choose_name(path, "features", features, FEATURES, names, "array")
    label, environment = _choose_roles(path, names, label, environment, "array")
    x, y, sites = (read_array(path, name) for name in (features, label, environment))
    y = check_column(f"{label!r} of {path}", y)
    sites = check_column(f"{environment!r} of {path}", sites)
    _check_roles(path, y, label, sites, environment)
    try:
        return Examples(x, y, sites)
    except ValueError as error:
        raise ValueError(f"{features!r} of {path} cannot be used: {error}") from error


def read_frame(path: Path) -> pd.DataFrame:
    """The table of a .csv (also with semicolons or tabs between cells) or .parquet file."""
    check_regular(path)
    check_memory(f"the table {path}", 4 * path.stat().st_size)
    is_csv = path.suffix.lower() == ".csv"
    if not is_csv:
        require("pyarrow", extra="tables")
    try:
        if is_csv:
            names, table = _read_csv(path)
        else:
            table = pd.read_parquet(path)
            names = table.columns
    except Exception as error:  # pandas and arrow raise all kinds on damaged content
        raise ValueError(f"{path} cannot be read as a table: {error}") from error
    table.columns = [str(name) for name in table.columns]
    named = pd.Index([str(name) for name in names])
    twice = named[named.duplicated()]
    if len(twice):
        raise ValueError(f"{path} has two columns called {twice[0]!r}: rename one of them")
    return table


def _read_csv(path: Path) -> tuple[Sequence[str], pd.DataFrame]:
    """The names as they are written, of which pandas renames the second of two, and the table."""
    how: dict[str, Any] = {"sep": _find_separator(path), "index_col": False}
    names = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False, **how).iloc[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            table = pd.read_csv(path, low_memory=False, **how)
        except pd.errors.ParserWarning:
            raise ValueError("its rows have more cells than its first row has names") from None
    return [name for name in names if name], table


def _find_separator(path: Path) -> str:
    """What stands between names in the first line, where it is not a comma."""
    with path.open(encoding="utf-8", errors="replace") as file:
        header = file.readline(2**20)
    others = [mark for mark in (";", "\t") if mark in header and "," not in header]
    return others[0] if others else ","


def _read_rows(path: Path) -> pd.DataFrame:
    table = read_frame(path)
    if table.empty:
        raise ValueError(f"{path} has no rows")
    return table


def _check_cells(path: Path, table: pd.DataFrame) -> None:
    """Refuse columns that are neither numbers nor names, and say where all cells are missing."""
    problems = _find_odd_columns(path, table)
    _refuse_problems(path, [*problems.values(), *_find_missing(path, table)])


def _refuse_problems(path: Path, problems: Sequence[str]) -> None:
    """All that is wrong with a table in one error, so that it is repaired at once."""
    if len(problems) > 1:
        listed = "".join(f"\n- {problem}" for problem in problems)
        raise ValueError(f"{path} has {len(problems)} problems:{listed}")
    if problems:
        raise ValueError(problems[0])


def _find_odd_columns(path: Path, table: pd.DataFrame) -> dict[str, str]:
    """What is wrong with columns that are neither numbers nor names, by column."""
    found = {}
    for name, column in table.items():
        dates = column.dtype.kind in "mM" or isinstance(column.dtype, pd.PeriodDtype)
        odd = next((v for v in column if isinstance(v, list | dict | np.ndarray | bytes)), None)
        if dates or column.dtype.kind == "c" or odd is not None:
            kind = "dates" if dates else "complex numbers" if odd is None else type(odd).__name__
            found[str(name)] = (
                f"column {name!r} of {path} holds {kind}, such as {show(column.iloc[0])}: make "
                "numbers of it, or leave it out, choosing columns with features=…"
            )
        elif column.dtype == object or isinstance(column.dtype, pd.StringDtype):
            texts = column.dropna().astype(str)
            written = texts.str.fullmatch(WRITTEN_NUMBER).to_numpy(dtype=bool)
            plain = pd.to_numeric(texts, errors="coerce").notna().to_numpy()
            alike = np.flatnonzero(written)
            if len(alike) and (written | plain).all():
                row = column.index.get_loc(texts.index[alike[0]])
                found[str(name)] = (
                    f"column {name!r} of {path} holds numbers with signs in them, first "
                    f"{texts.iloc[alike[0]]!r} {tell_row(row)}: write 1,000 as 1000, 20% as 0.2 "
                    "and 1,5 as 1.5"
                )
    return found


def _find_missing(path: Path, table: pd.DataFrame) -> list[str]:
    """One sentence on all missing cells, or none."""
    missing = table.isna().sum()
    missing = missing[missing > 0]
    if not len(missing):
        return []
    told = [
        f"{name!r} ({n} row{'s' if n > 1 else ''}, first "
        f"{tell_row(np.flatnonzero(table[name].isna())[0])})"
        for name, n in missing[:20].items()
    ]
    more = f" and {len(missing) - 20} more columns" if len(missing) > 20 else ""
    return [
        f"{path} has {int(missing.sum())} missing cells: {', '.join(told)}{more}. Fill them "
        "in, remove those rows, or choose columns with features=…"
    ]


def _choose_name(
    path: Path, role: str, given: str | None, usual: Sequence[str], there: Iterable[str], kind: str
) -> str:
    if given is not None:
        return check_choice(f"{kind} of {path}", given, there)
    for name in usual:
        if name in there:
            return name
    known = ", ".join(list(there)[:20])
    if kind == "array":
        raise ValueError(
            f"{path} has no array {' or '.join(map(repr, usual))}; it holds {known}: say which of "
            f"them has the {role} with {role}=…"
        )
    raise ValueError(f"{path} has no {role!r}; say which of {known} it is with {role}=…")


def _choose_roles(
    path: Path,
    there: Iterable[str],
    label: str | None,
    environment: str | None,
    kind: str = "column",
) -> tuple[str, str]:
    label = _choose_name(path, "label", label, LABELS, there, kind)
    return label, _choose_name(path, "environment", environment, ENVIRONMENTS, there, kind)


def _warn_of_identifiers(path: Path, table: pd.DataFrame, least: int = 20) -> None:
    """Say which whole numbers or texts differ in every row; of few rows that means nothing."""
    found = [
        str(name)
        for name, column in table.items()
        if len(table) >= least and not is_float_dtype(column.dtype) and column.is_unique
    ]
    if found:
        names = ", ".join(map(repr, found))
        warnings.warn(
            f"{names} of {path} differ{'s' * (len(found) == 1)} in every row, as an identifier "
            "does, and is taken for a feature: if it is none, name the columns to use with "
            "features=…",
            stacklevel=4,
        )


def _read_numbers(path: Path, column: pd.Series, name: str) -> NDArray[np.float64]:
    """A column as numbers; the first row that holds none is named."""
    is_numeric = is_numeric_dtype(column.dtype)
    numbers = column if is_numeric else pd.to_numeric(column.astype(object), errors="coerce")
    values: NDArray[np.float64] = numbers.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        seen = repr(column.iloc[wrong[:1]].tolist()[0])
        more = f" ({len(wrong)} rows like it)" if len(wrong) > 1 else ""
        raise ValueError(
            f"column {name!r} of {path} must hold numbers, but row {wrong[0] + 1} holds {seen}"
            f"{more}: repair or remove such rows, or choose columns with features=…"
        )
    return values


def _read_roles(
    path: Path, table: pd.DataFrame, label: str, environment: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    labels, sites = (_read_names(path, table[name], name) for name in (label, environment))
    _check_roles(path, labels, label, sites, environment)
    return labels, sites


def _check_roles(
    path: Path, labels: NDArray[Any], label: str, sites: NDArray[Any], environment: str
) -> None:
    check_classes(labels, f"the label {label!r} of {path}")
    check_classes(sites, f"the environment {environment!r} of {path}", kind="environment")


def _read_names(path: Path, column: pd.Series, name: str) -> NDArray[Any]:
    values = column.to_numpy(dtype=object) if column.isna().any() else column.to_numpy()
    values = check_column(f"column {name!r} of {path}", values)
    if values.dtype.kind == "U":
        is_number = pd.to_numeric(pd.Series(values), errors="coerce").notna().to_numpy()
        if is_number.any() and not is_number.all():
            row = np.flatnonzero(~is_number)[0]
            warnings.warn(
                f"column {name!r} of {path} mixes numbers and text, first {str(values[row])!r} "
                f"{tell_row(row)}: all are taken as text",
                stacklevel=4,
            )
    return values


#: A column of more names than this is rather an identifier or free text.
MAX_CATEGORIES = 50


def is_category(column: pd.Series) -> bool:
    """Whether a column without missing cells holds names throughout: no number among them."""
    numeric = is_numeric_dtype(column.dtype)
    return not numeric and bool(pd.to_numeric(column.astype(str), errors="coerce").isna().all())


def expand_category(
    path: Path, column: pd.Series, name: str
) -> tuple[list[str], NDArray[np.float64]]:
    """Names and values [N, c] of the indicators; of two categories, the second says it all.

    >>> expand_category(Path("a.csv"), pd.Series(["m", "f", "f"]), "sex")[0]
    ['sex = m']
    """
    texts = column.astype(str)
    if texts.nunique() > MAX_CATEGORIES:
        raise ValueError(
            f"column {name!r} of {path} holds {texts.nunique()} different names such as "
            f"{texts.min()!r}, too many for categories: leave it out, choosing columns with "
            "features=…, or make numbers of it"
        )
    made = pd.get_dummies(
        texts, prefix=name, prefix_sep=" = ", drop_first=texts.nunique() == 2, dtype=np.float64
    )
    return list(made), made.to_numpy()
