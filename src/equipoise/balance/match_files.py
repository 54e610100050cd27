"""Matches and weights as Parquet tables, for whatever tool comes next."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.groups import Groups
from equipoise.balance.matches import Matches
from equipoise.checks import require
from equipoise.files import write_whole
from equipoise.progress import track

Ints = NDArray[np.int64]

#: Matches that are in memory at once besides their table.
ROWS_AT_ONCE = 1 << 20


def write_matches(
    path: str | Path, matches: Matches, groups: Groups, rows: Ints, *, verbose: bool = False
) -> None:
    """Write a row for each match: anchor, match, label (of the match), environment, distance.

    Anchor and match are numbers of examples as the user counts them: `rows` [N]. An anchor's
    matches stand together, by label and then nearest first; a batch draws any one of a label's.
    """
    pa, pq = _load_arrow()
    schema = pa.schema(
        [
            ("anchor", pa.int64()),
            ("match", pa.int64()),
            ("label", pa.dictionary(pa.int32(), pa.string())),
            ("environment", pa.dictionary(pa.int32(), pa.string())),
            ("distance", pa.float64()),
        ]
    )
    step = max(1, ROWS_AT_ONCE // (matches.indices.shape[1] * matches.k))
    with (
        write_whole(path) as temporary,
        pq.ParquetWriter(temporary, schema) as writer,
        track(len(matches), "writing matches", enabled=verbose) as tracker,
    ):
        for start in range(0, len(matches), step):
            part = matches.indices[start : start + step]
            anchor, label, rank = np.nonzero(part >= 0)
            columns = [
                rows[start + anchor],
                rows[part[anchor, label, rank]],
                _name(label, groups.label_names),
                _name(groups.environments[start + anchor], groups.environment_names),
                matches.distances[start + anchor, label, rank],
            ]
            writer.write_table(pa.table(columns, schema=schema))
            tracker.reach(min(start + step, len(matches)))


def write_weights(
    path: str | Path,
    weights: NDArray[np.float64],
    groups: Groups,
    rows: Ints,
    names: Sequence[str] | None = None,
) -> None:
    """Write a row for each example: example, label, environment, weight, and name if it has one.

    The weight is how often balanced batches show the example where every example is an anchor
    once, so that it is at least 1.
    """
    pa, pq = _load_arrow()
    columns = {
        "example": rows,
        "label": _name(groups.labels, groups.label_names),
        "environment": _name(groups.environments, groups.environment_names),
        "weight": weights,
    }
    if names is not None:
        columns["name"] = pa.array(list(names), pa.string())
    with write_whole(path) as temporary:
        pq.write_table(pa.table(columns), temporary)


def _load_arrow() -> tuple[Any, Any]:
    return require("pyarrow", extra="tables"), require("pyarrow.parquet", extra="tables")


def _name(codes: Ints, names: tuple[str, ...]) -> Any:
    pa, _ = _load_arrow()
    indices = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))
