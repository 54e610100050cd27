"""What matching found: a table of matches, how good it is, what is kept, and how it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.distances import FloatArray, IntArray
from equipoise.balance.encoding import Encoding, as_table, check_alignment
from equipoise.balance.groups import Groups
from equipoise.balance.scores import check_codes, check_labels
from equipoise.checks import check_count, require
from equipoise.files import write_whole
from equipoise.progress import track

BoolArray = NDArray[np.bool_]

_ENTRIES_AT_ONCE = 1 << 22
#: Matches that are in memory at once besides their table.
ROWS_AT_ONCE = 1 << 20
QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class MatchReport:
    """How a search went; `recall` is None for exact engines."""

    engines: dict[str, int]  # engine -> how many strata it searched
    seconds: float
    trimmed: int = 0
    recall: float | None = None


@dataclass(frozen=True)
class MatchStatistics:
    """What `Matches.statistics()` tells."""

    quantiles: dict[float, float]  # quantile -> distance, over the matches at finite distance
    reuse_histogram: IntArray  # [r] -> how many examples stand in r lists
    effective_sample_size: FloatArray  # [m], of a label's examples weighted by their use
    used: IntArray  # [m], how many different examples of a label are anybody's match
    unmatched: IntArray  # [m], anchors without a match of that label (their own label aside)
    infinite: int
    report: MatchReport | None

    def __str__(self) -> str:
        lines = [
            "distance quantiles  "
            + "  ".join(f"{q:.0%} {d:.3g}" for q, d in self.quantiles.items()),
            f"reuse               at most {len(self.reuse_histogram) - 1}, "
            f"{int(self.reuse_histogram[0]):,} examples never",
            "effective size      " + "  ".join(f"{x:,.0f}" for x in self.effective_sample_size),
            f"unmatched           {int(self.unmatched.sum()):,} "
            f"(and {self.infinite:,} at infinite distance)",
        ]
        if self.report is not None:
            engines = ", ".join(f"{name} ×{n}" for name, n in self.report.engines.items())
            lines.append(f"search              {engines} in {self.report.seconds:.2f} s")
            if self.report.trimmed:
                lines.append(f"trimmed             {self.report.trimmed:,} outside common support")
            if self.report.recall is not None:
                lines.append(f"recall              {self.report.recall:.4f} of the exact matches")
        return "\n".join(lines)


@dataclass(frozen=True, repr=False)
class Matches:
    """The k nearest examples of each label for each of N examples, nearest first.

    indices: [N, m, k], −1 where there is no match (own label, label absent in the
        environment, beyond the caliper); distances: [N, m, k], inf there.
    companions: [N, c] examples of the same label *and* covariate; only oracle matching knows them.
    report: how the search went, where there was one.

    >>> matches = Matches(np.array([[[-1], [1]], [[0], [-1]]]), np.zeros((2, 2, 1)), "kl")
    >>> matches
    Matches(2 examples, 2 labels, n_nearest=1, metric='kl', 2 of 2 pairs matched)
    >>> matches.lookup(np.array([0]), np.array([[1]]))
    array([[[1]]])
    """

    indices: IntArray
    distances: FloatArray
    metric: str
    companions: IntArray | None = None
    report: MatchReport | None = None

    def __post_init__(self) -> None:
        if self.indices.ndim != 3 or self.indices.shape != self.distances.shape:
            raise ValueError(
                "indices and distances must have one shape [N, m, k], got "
                f"{self.indices.shape} and {self.distances.shape}"
            )

    @property
    def n_nearest(self) -> int:
        return int(self.indices.shape[2])

    def lookup(self, anchors: IntArray, labels: IntArray) -> IntArray:
        """Matches of `anchors` [B] in the `labels` [B, a] asked of each: [B, a, k], −1 for none."""
        return self.indices[np.asarray(anchors)[:, None], labels]

    def has_match(self, anchors: IntArray) -> BoolArray:
        """For which labels each of `anchors` [B] has a match: [B, m]."""
        return np.asarray(self.indices[anchors, :, 0] >= 0)

    @property
    def matched(self) -> BoolArray:
        """Which examples [N] have any match; only they can be anchors of balanced batches."""
        return np.asarray((self.indices[:, :, 0] >= 0).any(axis=1))

    def statistics(self, labels: Any) -> MatchStatistics:
        """Distances, reuse, effective sample size and unmatched counts, given the labels [N]."""
        n, m, _ = self.indices.shape
        codes = check_labels(labels, n, m)
        found = self.indices >= 0
        finite = self.distances[found & np.isfinite(self.distances)]
        cuts = np.quantile(finite, QUANTILES) if finite.size else np.full(len(QUANTILES), np.nan)
        use = np.bincount(self.indices[found], minlength=n)
        total = np.bincount(codes, weights=use, minlength=m)
        squares = np.bincount(codes, weights=use.astype(np.float64) ** 2, minlength=m)
        without = ~found[:, :, 0]
        without[np.arange(n), codes] = False
        return MatchStatistics(
            quantiles=dict(zip(QUANTILES, cuts.tolist(), strict=True)),
            reuse_histogram=np.bincount(use),
            effective_sample_size=np.divide(total**2, squares, out=np.zeros(m), where=squares > 0),
            used=np.bincount(codes[use > 0], minlength=m),
            unmatched=without.sum(axis=0),
            infinite=int(np.count_nonzero(found & np.isinf(self.distances))),
            report=self.report,
        )

    def __len__(self) -> int:
        return int(self.indices.shape[0])

    def __repr__(self) -> str:
        n, m, k = self.indices.shape
        found = int(np.count_nonzero(self.indices[:, :, 0] >= 0))
        companions = "" if self.companions is None else f", {self.companions.shape[1]} companions"
        return (
            f"Matches({n:,} examples, {m} labels, n_nearest={k}, metric={self.metric!r}, "
            f"{found:,} of {n * (m - 1):,} pairs matched{companions})"
        )


def drop_far(
    indices: IntArray, distances: FloatArray, limit: float, *, but_first: bool = False
) -> None:
    """Drop matches [..., k] that are farther than `limit`, in place, but perhaps the nearest."""
    far = distances > limit
    far[..., 0] &= not but_first
    indices[far], distances[far] = -1, np.inf


def keep_closest(matches: Matches, covariates: Any, labels: Any, *, n_nearest: int = 1) -> Matches:
    """Of each list of matches keep those nearest in the covariates themselves.

    Mahalanobis distance among examples of nearly the same score (Rubin and Thomas 2000). Ask
    `match_scores` for many, such as `n_nearest=100`, and keep one. Distances stay those of the
    scores.

    Parameters
    ----------
    matches : Matches
    covariates : DataFrame or array-like, [N, p]
    labels : integer codes [N]
    n_nearest : int
        How many are kept for each anchor and label.

    >>> found = Matches(np.array([[[1, 2]], [[0, -1]], [[0, -1]]]), np.zeros((3, 1, 2)), "kl")
    >>> keep_closest(found, [1.0, 5.0, 2.0], [0, 1, 1]).indices[:, 0, 0]
    array([2, 0, 0])
    """
    check_count("n_nearest", n_nearest)
    check_alignment(covariates, labels, len(matches))
    table = as_table(covariates)
    points = Encoding.learn(table).encode(table)
    codes = check_codes("labels", labels, len(points))
    # The covariance within labels, so that their difference does not make a gap look small.
    counts = np.bincount(codes)
    centers = np.column_stack(
        [np.bincount(codes, column) / np.maximum(counts, 1) for column in points.T]
    )
    inner = points - centers[codes]
    sizes, axes = np.linalg.eigh(inner.T @ inner / len(inner))
    useful = sizes > 1e-9 * max(sizes.max(), 1e-300)
    points = points @ (axes[:, useful] / np.sqrt(sizes[useful]))
    n, m, k = matches.indices.shape
    kept = np.empty((n, m, min(k, n_nearest)), dtype=np.int64)
    step = max(1, _ENTRIES_AT_ONCE // (m * k * points.shape[1]))
    for start in range(0, n, step):
        part = slice(start, start + step)
        some = matches.indices[part]
        gaps = np.square(points[part, None, None] - points[some]).sum(axis=3)
        order = np.argsort(np.where(some < 0, np.inf, gaps), axis=2, kind="stable")
        kept[part] = order[:, :, :n_nearest]
    return replace(
        matches,
        indices=np.take_along_axis(matches.indices, kept, axis=2),
        distances=np.take_along_axis(matches.distances, kept, axis=2),
    )


def pack_matches(matches: Any) -> dict[str, NDArray]:
    """Found indices and distances one after the other, and how many each (anchor, label) has.

    Matches made on demand have nothing to store: make them again from the scores.
    """
    if not isinstance(matches, Matches):
        return {}
    found = matches.indices >= 0
    return {
        "match_counts": found.sum(axis=2, dtype=np.int32),
        "match_indices": matches.indices[found].astype(np.int32),
        "match_distances": matches.distances[found],
    }


def unpack_matches(arrays: Mapping[str, NDArray], *, n_nearest: int, metric: str) -> Matches:
    """What `pack_matches` took in: found matches come before the missing ones."""
    counts = arrays["match_counts"]
    found = np.arange(n_nearest) < counts[:, :, None]
    indices = np.full(found.shape, -1, dtype=np.int64)
    distances = np.full(found.shape, np.inf)
    indices[found] = arrays["match_indices"]
    distances[found] = arrays["match_distances"]
    return Matches(indices, distances, metric)


def write_matches(
    path: str | Path, matches: Matches, groups: Groups, rows: IntArray, *, verbose: bool = False
) -> None:
    """Write a row for each match: anchor, match (by `rows`), its label, environment, distance."""
    pa, pq = _load_arrow()
    number, name = pa.int64(), pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema(
        {
            "anchor": number,
            "match": number,
            "label": name,
            "environment": name,
            "distance": pa.float64(),
        }
    )
    step = max(1, ROWS_AT_ONCE // (matches.indices.shape[1] * matches.n_nearest))
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
    rows: IntArray,
    names: Sequence[str] | None = None,
) -> None:
    """Write a row for each example: its number, label, environment, weight, and name if any."""
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


def _name(codes: IntArray, names: tuple[str, ...]) -> Any:
    pa, _ = _load_arrow()
    indices = pa.array(codes.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, pa.array(names, pa.string()))
